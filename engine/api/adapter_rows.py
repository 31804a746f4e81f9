"""Adapter rows as ``/api`` shows them: selected, sorted, and with what is wanted beside what is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from engine.api.queries import flag, number, one_of
from engine.ids import Residency
from engine.snapshot import AdapterRow

SORTABLE = (
    "alias",
    "id",
    "tier",
    "bytes",
    "rank",
    "leases",
    "waiting",
    "requests",
    "requests_per_min",
    "registered_unix",
    "last_used_unix",
)
LIFECYCLES = ("validating", "ready", "rejected", "retired")
DEFAULT_LIMIT, MOST_ROWS = 100, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterQuery:
    """Which rows, in what order. None is any."""

    text: str = ""
    tier: str | None = None
    pinned: bool | None = None
    lifecycle: str | None = None
    tenant: str | None = None
    sort: str = "alias"
    descending: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIMIT

    @classmethod
    def read(cls, query: Mapping[str, str]) -> AdapterQuery:
        """From ``?q= &tier= &pinned= &lifecycle= &tenant= &sort=[-]field &offset= &limit=``. Raises InvalidRequest."""
        order = query.get("sort", "alias")
        return cls(
            text=query.get("q", "").lower(),
            tier=one_of(query, "tier", get_args(Residency)),
            pinned=flag(query, "pinned"),
            lifecycle=one_of(query, "lifecycle", LIFECYCLES),
            tenant=query.get("tenant"),
            sort=one_of({"sort": order.removeprefix("-")}, "sort", SORTABLE) or "alias",
            descending=order.startswith("-"),
            offset=number(query, "offset", default=0),
            limit=number(query, "limit", default=DEFAULT_LIMIT, most=MOST_ROWS),
        )

    def matches(self, row: AdapterRow) -> bool:
        """Whether the row is asked for."""
        return (
            (not self.text or any(self.text in name.lower() for name in (row.alias, row.id, *row.aliases)))
            and self.tier in {None, row.tier}
            and self.pinned in {None, row.pinned}
            and self.lifecycle in {None, row.lifecycle}
            and self.tenant in {None, row.tenant}
        )


def select_rows(rows: Iterable[AdapterRow], query: AdapterQuery) -> tuple[list[AdapterRow], int]:
    """The page of rows asked for, and how many there are in all. Rows that lack the sort field come last."""
    found = [row for row in rows if query.matches(row)]
    known = [row for row in found if getattr(row, query.sort) is not None]
    unknown = [row for row in found if getattr(row, query.sort) is None]
    known.sort(key=lambda row: row.alias)
    known.sort(key=lambda row: getattr(row, query.sort), reverse=query.descending)
    return [*known, *unknown][query.offset : query.offset + query.limit], len(found)


def find_row(rows: Iterable[AdapterRow], ref: str) -> AdapterRow | None:
    """The row of an alias or version id."""
    return next((row for row in rows if ref in {row.alias, row.id} or ref in row.aliases), None)


def row_json(row: AdapterRow) -> dict[str, Any]:
    """The snapshot's row, with the validation report and the desired placement as objects of their own."""
    desired = {"tier": row.pin_tier or "device", "until_unix": row.pin_until, "reason": row.pin_reason} if row.pinned else None
    return {
        **asdict(row),
        "report": {
            "matched": row.num_matched,
            "modules": row.modules,
            "rank": row.rank,
            "bytes": row.bytes,
            "pages": row.pages,
            "warnings": row.warnings,
            "base_proof": row.base_proof,
            "probe": row.probe,
        },
        "desired": desired,
        "drift": desired is not None and desired["tier"] != row.tier,
    }
