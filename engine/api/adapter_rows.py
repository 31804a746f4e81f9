"""Adapter rows as ``/api`` shows them: selected, sorted, and with what is wanted beside what is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
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
FIELDS = tuple(field.name for field in fields(AdapterRow))
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

    def tests(self) -> list[Callable[[AdapterRow], bool]]:
        """What a row must be, one test for each thing that is asked."""
        text, tier, pinned, lifecycle, tenant = self.text, self.tier, self.pinned, self.lifecycle, self.tenant
        asked: list[tuple[bool, Callable[[AdapterRow], bool]]] = [
            (tier is not None, lambda row: row.tier == tier),
            (pinned is not None, lambda row: row.pinned == pinned),
            (lifecycle is not None, lambda row: row.lifecycle == lifecycle),
            (tenant is not None, lambda row: row.tenant == tenant),
            (bool(text), lambda row: text in row.alias.lower() or text in row.id or (len(row.aliases) > 1 and _names_hold(row, text))),
        ]
        return [test for is_asked, test in asked if is_asked]


class AdapterBook:
    """Finds pages among tens of thousands of rows. Remembers the order of names, which seldom changes; any thread, one at a time."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._order: list[int] = []
        self._turn = threading.Lock()

    def page(self, rows: Sequence[AdapterRow], query: AdapterQuery) -> tuple[list[AdapterRow], int]:
        """The page of rows asked for, and how many there are in all. Rows that lack the sort field come last."""
        found = self._by_name(rows)
        for test in query.tests():
            found = list(filter(test, found))
        if query.sort != "alias" or query.descending:
            field = attrgetter(query.sort)
            known = [row for row in found if field(row) is not None]
            unknown = [row for row in found if field(row) is None] if len(known) < len(found) else []
            known.sort(key=field, reverse=query.descending)
            found = [*known, *unknown]
        return found[query.offset : query.offset + query.limit], len(found)

    def _by_name(self, rows: Sequence[AdapterRow]) -> list[AdapterRow]:
        names = [row.alias for row in rows]
        with self._turn:
            if names != self._names:
                self._names, self._order = names, sorted(range(len(names)), key=names.__getitem__)
            order = self._order
        return [rows[place] for place in order]


def _names_hold(row: AdapterRow, text: str) -> bool:
    return any(text in name.lower() for name in row.aliases)


def find_row(rows: Iterable[AdapterRow], ref: str) -> AdapterRow | None:
    """The row of an alias or version id."""
    return next((row for row in rows if ref in {row.alias, row.id} or ref in row.aliases), None)


def row_json(row: AdapterRow) -> dict[str, Any]:
    """The snapshot's row, with the validation report and the desired placement as objects of their own."""
    desired = {"tier": row.pin_tier or "device", "until_unix": row.pin_until, "reason": row.pin_reason} if row.pinned else None
    return {
        **{name: getattr(row, name) for name in FIELDS},
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
