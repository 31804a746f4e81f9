"""Versions as the registry keeps them, whether or not they serve. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import AdapterId, LoradeckError, TenantId

if TYPE_CHECKING:
    from collections.abc import Mapping


class OpenedRef(NamedTuple):
    """A version by its place in a line, as the page's address says it."""

    tenant: TenantId
    line: str
    number: int

    @property
    def text(self) -> str:
        """What goes into the address."""
        return f"{self.tenant}:{self.line}@{self.number}"

    @property
    def ref(self) -> str:
        """How people and the API refer to it."""
        return f"{self.line}@{self.number}"


def opened_ref(text: str) -> OpenedRef | None:
    """``tenant:line@number`` → its parts; None for anything else."""
    tenant, colon, rest = text.partition(":")
    line, at, number = rest.rpartition("@")
    if not (tenant and colon and line and at and number.isascii() and number.isdigit() and len(number) < 10):  # noqa: PLR2004 - as many as a number may have
        return None
    return OpenedRef(TenantId(tenant), line, int(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One check of the gate, as it was stored."""

    name: str
    verdict: str
    expected: str = ""
    found: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of a line, in any state."""

    key: int
    tenant: TenantId
    line: str
    number: int
    content: AdapterId | None
    state: str
    state_unix: float
    registered_unix: float
    registered_by: str
    source: str
    rank: int
    bytes: int
    score: float | None
    metric: str
    checks: tuple[CheckLine, ...]
    warnings: tuple[str, ...]
    refusal: str
    note: str
    archive: str | None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> StoredVersion:
        """From what the registry answers."""
        report, scores = facts["report"] or {}, facts["scores"] or {}
        same = ("key", "line", "number", "state", "state_unix", "registered_unix", "registered_by", "source", "rank", "bytes", "note")
        return cls(
            **{name: facts[name] for name in same},
            tenant=TenantId(facts["tenant"]),
            content=AdapterId(facts["content"]) if facts["content"] else None,
            score=scores.get("adapter"),
            metric=scores.get("metric") or "",
            checks=tuple(CheckLine(**check) for check in report.get("checks", ())),
            warnings=tuple(facts["warnings"]),
            refusal=report.get("message") or "",
            archive=facts["archive"],
        )

    @property
    def place(self) -> OpenedRef:
        """Where it is found."""
        return OpenedRef(self.tenant, self.line, self.number)

    @property
    def is_gone(self) -> bool:
        """Archived, and its archive was deleted: nothing brings it back."""
        return self.state == "archived" and self.archive is None

    @property
    def reason(self) -> str:
        """Why it does not serve: the refusal, or what was said when it was retired; of one that is gone, that."""
        if self.is_gone:
            return f"Cannot be restored, its archive was deleted{f': {self.note}' if self.note else '.'}"
        return self.refusal or self.note


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """A page of versions from the registry, or why there is none."""

    rows: tuple[StoredVersion, ...] = ()
    found: int = 0
    page: int = 1
    pages: int = 1
    fault: LoradeckError | None = field(default=None, compare=False)
