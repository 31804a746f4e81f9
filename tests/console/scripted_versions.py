"""Versions, names and an audit log made of lists: the public face of ``engine.versions`` and ``engine.audit`` over the scripted world."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from engine import (
    SYSTEM,
    AdapterId,
    AdapterNotFound,
    AdapterRow,
    AliasRecord,
    AuditRecord,
    Bill,
    Caller,
    Conflict,
    Departure,
    MoveOutcome,
    TenantId,
    VersionRecord,
)
from tests.console.scripted_removal import ScriptedRemoval

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_S = 86_400
EVIL = "<img src=x onerror=\"document.title='owned'\">"
CHECKS = ("schema", "base", "numbers", "effect", "score", "replaced_score")
PASSED: dict[str, tuple[str, str]] = {
    "schema": ("every tensor lands on a module", "224 modules"),
    "base": ("b41f7c2e90d1a6", "declared, not proven"),
    "numbers": ("B not all zero, or declared so", "finite, B not all zero"),
    "effect": ("logits differ from the base's", "they do, or need not"),
    "score": ("at least 60.0%", "83.1% (right answers)"),
    "replaced_score": ("at least 79.4% (81.4% less 2.0%)", "83.1%"),
}


@dataclass
class Version:
    """One version, as facts to be changed."""

    key: int
    tenant: TenantId
    line: str
    number: int
    content: AdapterId | None
    state: str = "ready"
    score: float | None = 0.83
    failed: str = ""
    at_unix: float = field(default_factory=time.time)
    note: str = ""
    archive: str | None = None
    row: AdapterRow | None = None

    def record(self) -> VersionRecord:
        """As the engine keeps it."""
        row = self.row
        return VersionRecord(
            id=self.content or AdapterId(""),
            digest=self.content or "",
            tenant=self.tenant,
            source="",
            base_digest="",
            rank=row.rank if row else 0,
            modules=(),
            num_matched=0,
            num_pages=row.pages if row else 0,
            bytes=row.bytes if row else 0,
            base_proof="declared",
            registered_unix=self.at_unix,
            key=self.key,
            line=self.line,
            number=self.number,
            state=self.state,  # type: ignore[arg-type]
        )

    def facts(self) -> dict[str, Any]:
        """As the registry answers."""
        row = self.row
        report: dict[str, Any] = {"checks": [self._check(name) for name in CHECKS], "judged_unix": self.at_unix}
        if self.failed:
            report |= {"message": f"layers.0.q_proj.lora_B has the wrong shape. {EVIL}", "code": "shape_mismatch"}
        return {
            **{name: getattr(self, name) for name in ("key", "tenant", "line", "number", "content", "state", "note")},
            "state_unix": self.at_unix,
            "registered_unix": self.at_unix,
            "registered_by": "j.okafor" if self.number % 2 else "deploy-bot",
            "source": f"/data/adapters/{self.line}",
            "rank": row.rank if row else 0,
            "bytes": row.bytes if row else 0,
            "warnings": list(row.warnings) if row else [],
            "report": report,
            "scores": {"adapter": self.score, "metric": "right answers"} if self.score is not None else {},
            "archive": self.archive,
        }

    def _check(self, name: str) -> dict[str, Any]:
        reached = not self.failed or CHECKS.index(name) < CHECKS.index(self.failed)
        if name == self.failed:
            return {"name": name, "verdict": "failed", "expected": "[4096, 16]", "found": "[2048, 16]", "code": "shape_mismatch"}
        if not reached:
            return {"name": name, "verdict": "not_reached", "expected": "", "found": "", "code": ""}
        expected, found = PASSED[name]
        return {"name": name, "verdict": "warned" if name == "base" else "passed", "expected": expected, "found": found, "code": ""}


class ScriptedVersions:
    """Every row's line has three versions, the newest named; some lines have rejected and retired ones. ``put`` shows a moved row."""

    def __init__(self, rows: tuple[AdapterRow, ...], put: Callable[[AdapterRow], None], drop: Callable[[AdapterId], None]) -> None:
        self.thresholds: Any = None
        self.bases: Any = None
        self.put, self.remove = put, drop
        self.all: list[Version] = []
        self.named: dict[tuple[TenantId, str], AliasRecord] = {}
        self.before: dict[tuple[TenantId, str], int] = {}
        self.lines: list[AuditRecord] = []
        for index, row in enumerate(rows):
            self.know(row, index)
        self.names = SimpleNamespace(move=self.move, rollback=self.rollback, canary=self.canary, promote=self.promote)
        self.retirement = SimpleNamespace(retire=self.retire, archive=self.archive, restore=self.restore)
        self.removal = ScriptedRemoval(self.version)
        self.find = SimpleNamespace(alias=self.alias)

    def know(self, row: AdapterRow, index: int) -> None:
        """Give a row its line."""
        for number in range(1, row.number + 1):
            newest = number == row.number
            content = row.id if newest else AdapterId(hashlib.sha256(f"{row.id}{number}".encode()).hexdigest()[:32])
            version = Version(
                key=len(self.all) + 1,
                tenant=row.tenant,
                line=row.alias,
                number=number,
                content=content,
                score=None if index % 3 == 2 else 0.78 + number / 60,
                at_unix=time.time() - (row.number - number) * 3 * DAY_S - index * 1700,
                row=row,
            )
            if not newest and index % 9 == 4:
                version.state, version.note = "retired", "replaced by a better one"
            if not newest and index % 6 == 3:
                version.state, version.failed, version.content = "rejected", "schema", None
            self.all.append(version)
        name = (row.tenant, row.alias)
        self.named[name] = AliasRecord(
            tenant=row.tenant, name=row.alias, adapter=row.id, version=len(self.all), moved_unix=time.time() - 3600
        )
        if row.number > 1:
            self.before[name] = len(self.all) - 1

    def by_key(self, key: int | None) -> Version:
        """A version that must be there."""
        return self.all[(key or 0) - 1]

    def version(self, ref: str, tenant: TenantId | None) -> Version:
        """By alias, id or ``line@number``."""
        line, _, number = ref.rpartition("@")
        for one in reversed(self.all):
            if tenant in {None, one.tenant} and (ref in {one.content, one.line} or (one.line == line and str(one.number) == number)):
                return one
        raise AdapterNotFound(f"No adapter {ref!r} is registered.", param="ref", found=ref)

    def alias(self, name: str, tenant: TenantId | None) -> AliasRecord:
        """Where a name leads."""
        for (owner, called), alias in self.named.items():
            if called == name and tenant in {None, owner}:
                return alias
        raise AdapterNotFound(f"No adapter {name!r} is registered.", param="ref", found=name)

    def tally(self, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> dict[str, int]:
        """How many are in each state."""
        caller.need("viewer")
        counts: dict[str, int] = {}
        for one in self.all:
            if tenant in {None, one.tenant}:
                counts[one.state] = counts.get(one.state, 0) + 1
        return counts

    def stored(
        self, states: Any, *, tenant: Any = None, text: str = "", offset: int = 0, limit: int = 100, caller: Caller = SYSTEM
    ) -> tuple[list[dict[str, Any]], int]:
        """A page of those in some states."""
        caller.need("viewer")
        found = [one.facts() for one in self.all if one.state in states and tenant in {None, one.tenant} and text.lower() in one.line]
        found.sort(key=lambda facts: -facts["state_unix"])
        return found[offset : offset + limit], len(found)

    def history(self, ref: str, *, tenant: Any = None, limit: int = 100, offset: int = 0, caller: Caller = SYSTEM) -> list[dict[str, Any]]:
        """A line, newest first."""
        caller.need("viewer")
        one = self.version(ref, tenant)
        found = [other.facts() for other in self.all if (other.tenant, other.line) == (one.tenant, one.line)]
        return sorted(found, key=lambda facts: -facts["number"])[offset : offset + limit]

    # Names

    def move(self, alias: str, to: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> MoveOutcome:
        """To another version; one whose line is ``huge`` is quarantined, and so refused."""
        caller.need("operator")
        after = self.version(to, tenant)
        if "huge" in after.line:
            message = "It is quarantined, since it does not answer as it did; register it again."
            raise Conflict(message, code="quarantined", param="version", expected="probe ok", found="probe mismatch")
        return self._point("alias.move", self.alias(alias, tenant), after, caller, **more)

    def rollback(self, alias: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> MoveOutcome:
        """To the version before."""
        caller.need("operator")
        current = self.alias(alias, tenant)
        key = self.before.get(current.alias)
        if key is None or self.by_key(key).state != "ready":
            raise Conflict(f"{alias} has named no other version before this one.", code="nothing_before", param="alias", found=alias)
        return self._point("alias.rollback", current, self.by_key(key), caller, **more)

    def canary(self, alias: str, to: str, share: float, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> MoveOutcome:
        """A share to a second version."""
        caller.need("operator")
        current = self.alias(alias, tenant)
        second = self.version(to, tenant) if share else None
        return self._point("alias.canary", current, self.by_key(current.version), caller, second=second, share=share, **more)

    def promote(self, alias: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> MoveOutcome:
        """All to the canary."""
        caller.need("operator")
        current = self.alias(alias, tenant)
        return self._point("alias.promote", current, self.by_key(current.canary_version), caller, **more)

    def _point(
        self,
        action: str,
        current: AliasRecord,
        after: Version,
        caller: Caller,
        *,
        second: Version | None = None,
        share: float = 0.0,
        why: str = "",
        preview: bool = False,
        undo_of: int | None = None,
    ) -> MoveOutcome:
        before = self.by_key(current.version)
        target = second or after
        bill = Bill(
            tier="device",
            is_there=target.number == before.number,
            arithmetic=(("Arena", 61_609), ("KV floor", -4_096), ("Pinned", -4_400), ("The version before", -160), ("Left", 52_953)),
            eta_s=0.009,
            in_flight=3,
        )
        if not preview:
            new = dataclasses.replace(
                current,
                adapter=after.content or current.adapter,
                version=after.key,
                moved_unix=time.time(),
                canary=second.content if second else None,
                canary_version=second.key if second else None,
                canary_share=share,
            )
            if after.key != before.key:
                self.before[current.alias] = before.key
            self.named[current.alias] = new
            self.note(action, "alias", current.name, current.tenant, caller, _facts(current), _facts(new), why, undo_of)
            if after.row is not None and after.key != before.key and after.content is not None:
                self.remove(current.adapter)
                self.put(dataclasses.replace(after.row, id=after.content, number=after.number))
        words = f"{current.name} is back at {after.line}@{after.number}" if action == "alias.rollback" else f"{current.name} moved"
        return MoveOutcome(
            alias=current.name,
            tenant=current.tenant,
            before=before.record(),
            after=after.record(),
            canary=second.record() if second else None,
            share=share,
            bill=bill,
            preview=preview,
            message=f"{words}.",
        )

    # Last steps

    def retire(self, ref: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> Departure:
        """With its names; those in flight end first."""
        return self._depart("retire", "retired", ref, tenant, caller, **more)

    def archive(self, ref: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> Departure:
        """Off the disk."""
        return self._depart("archive", "archived", ref, tenant, caller, **more)

    def restore(self, ref: str, *, tenant: Any = None, caller: Caller = SYSTEM, **more: Any) -> Departure:
        """Ready again."""
        return self._depart("restore", "ready", ref, tenant, caller, **more)

    def _depart(
        self,
        verb: str,
        state: str,
        ref: str,
        tenant: Any,
        caller: Caller,
        *,
        why: str = "",
        preview: bool = False,
        undo_of: int | None = None,
    ) -> Departure:
        caller.need("operator")
        one = self.version(ref, tenant)
        names = [alias for alias in self.named.values() if alias.version == one.key] if verb == "retire" else []
        leases = one.row.leases if one.row and names else 0
        if not preview:
            before, one.state, one.note, one.at_unix = one.state, state, why, time.time()
            one.archive = "a" * 64 if state == "archived" else None
            for alias in names:
                del self.named[alias.alias]
                if one.row is not None:
                    self.put(dataclasses.replace(one.row, lifecycle="retired", drain_eta_s=12.0))
            name = f"{one.line}@{one.number}"
            self.note(f"version.{verb}", "version", name, one.tenant, caller, {"state": before}, {"state": state}, why, undo_of)
        message = f"{verb.capitalize()}d {one.line}@{one.number}."
        return Departure(
            version=one.record(),
            preview=preview,
            message=message,
            aliases=tuple(alias.name for alias in names),
            leases=leases,
            drain_eta_s=12.0,
            bytes=one.record().bytes,
        )

    def note(self, action: str, kind: str, name: str, tenant: TenantId, caller: Caller, *more: Any) -> None:
        """A line in the log."""
        before, after, why, undo_of = more
        self.lines.append(
            AuditRecord(
                key=len(self.lines) + 1,
                at_unix=time.time(),
                by=caller.name,
                by_kind=caller.kind,
                tenant=tenant,
                action=action,
                object_kind=kind,
                object=name,
                before=before,
                after=after,
                why=why,
                request=None,
                undo_of=undo_of,
                hash="",
            )
        )


class ScriptedAudit:
    """The log of the scripted versions, and its way back."""

    def __init__(self, versions: ScriptedVersions) -> None:
        self._versions = versions

    def lines(self, *, kind: str | None = None, subject: str | None = None, caller: Caller = SYSTEM, **_: Any) -> list[AuditRecord]:
        """Newest first."""
        caller.need("viewer")
        return [line for line in reversed(self._versions.lines) if kind in {None, line.object_kind} and subject in {None, line.object}]

    def reversible(self, line: AuditRecord) -> bool:
        """All but an archive."""
        return line.action != "version.archive"

    def why_not(self, line: AuditRecord) -> str:
        """Likewise."""
        return "" if self.reversible(line) else "it is away"

    def undone(self, lines: list[AuditRecord], *, caller: Caller = SYSTEM) -> dict[int, int]:
        """Lines that were taken back."""
        return {line.undo_of: line.key for line in self.lines(caller=caller) if line.undo_of in {each.key for each in lines}}

    def undo(self, key: int, *, why: str = "", caller: Caller = SYSTEM) -> AuditRecord:
        """Back to what was before."""
        caller.need("operator")
        versions, line = self._versions, self._versions.lines[key - 1]
        assert line.before is not None
        if line.object_kind == "alias":
            current = versions.alias(line.object, TenantId(line.tenant or ""))
            back = versions.by_key(line.before["version"])
            versions._point("alias.move", current, back, caller, why=why, undo_of=key)
        else:
            versions._depart("restore", line.before["state"], line.object, line.tenant, caller, why=why, undo_of=key)
        return versions.lines[-1]


def _facts(alias: AliasRecord) -> dict[str, Any]:
    return {"version": alias.version, "canary_version": alias.canary_version, "canary_share": alias.canary_share}
