"""Adapter rows as ``/api`` shows them: selected, sorted, and with what is wanted beside what is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        """What a row must be, one test for each thing that is asked; the text is looked for by the book."""
        tier, pinned, lifecycle, tenant = self.tier, self.pinned, self.lifecycle, self.tenant
        asked: list[tuple[object, Callable[[AdapterRow], bool]]] = [
            (tier, lambda row: row.tier == tier),
            (pinned, lambda row: row.pinned == pinned),
            (lifecycle, lambda row: row.lifecycle == lifecycle),
            (tenant, lambda row: row.tenant == tenant),
        ]
        return [test for what, test in asked if what is not None]


class AdapterBook:
    """Finds pages among tens of thousands of rows. Remembers names and their order, which seldom change. Any thread."""

    def __init__(self) -> None:
        self._known: tuple[Sequence[AdapterRow], list[tuple[str, ...]], list[int], list[str]] = ((), [], [], [])
        """Rows and their aliases by place; places in order of name; text to search, in that order. Replaced whole."""

    def page(self, rows: Sequence[AdapterRow], query: AdapterQuery) -> tuple[list[AdapterRow], int]:
        """The page of rows asked for, and how many there are in all. Rows that lack the sort field come last."""
        order, texts = self._by_name(rows)
        if query.text:
            order = [place for place, text in zip(order, texts, strict=True) if query.text in text]
        found = [rows[place] for place in order]
        for test in query.tests():
            found = list(filter(test, found))
        if query.sort != "alias" or query.descending:
            field = attrgetter(query.sort)
            known = [row for row in found if field(row) is not None]
            unknown = [row for row in found if field(row) is None] if len(known) < len(found) else []
            known.sort(key=field, reverse=query.descending)
            found = [*known, *unknown]
        return found[query.offset : query.offset + query.limit], len(found)

    def _by_name(self, rows: Sequence[AdapterRow]) -> tuple[list[int], list[str]]:
        before, names, order, texts = self._known
        if rows is not before:
            found = [(row.alias, row.id, *row.aliases) for row in rows]
            if found != names:
                names, order = found, sorted(range(len(found)), key=[f"{one[0]}\0{one[1]}" for one in found].__getitem__)
                texts = ["\n".join(names[place]).lower() for place in order]
            self._known = (rows, names, order, texts)
        return order, texts


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
