"""What the adapters page shows: saved views, facets, filter words, order, page; and its address. Pure."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine import AdapterRow

HOT_PER_MIN: Final = 1.0
SIZES: Final = (25, 50)
TIERS: Final = ("device", "host", "disk", "remote")
TIER_ORDER: Final = {"device": 0, "draining": 1, "loading": 2, "host": 3, "disk": 4, "remote": 5}
AGES_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TOKEN: Final = re.compile(r"^(tenant|tier|pinned|leased|rank|idle):(.+)$")


def cold_share(row: AdapterRow) -> float | None:
    """Cold starts among the requests that needed this adapter; None when there were none."""
    asked = row.cold_starts + row.hits
    return row.cold_starts / asked if asked else None


def is_drifting(row: AdapterRow) -> bool:
    """Whether it is not where a pin wants it."""
    return row.pin_tier is not None and row.tier not in {row.pin_tier, "loading"} and row.tier != "device"


VIEWS: Final[dict[str, tuple[str, Callable[[AdapterRow], bool]]]] = {
    "all": ("All", lambda row: row.lifecycle != "rejected"),
    "hot": ("Hot now", lambda row: row.requests_per_min >= HOT_PER_MIN),
    "cold": ("Cold starts", lambda row: row.cold_starts > 0),
    "idle": ("Idle on device", lambda row: row.tier == "device" and not row.leases and not row.requests_per_min),
    "rejected": ("Rejected", lambda row: row.lifecycle == "rejected"),
}
FACETS: Final[dict[str, tuple[str, Callable[[AdapterRow], bool]]]] = {
    "device": ("device", lambda row: row.tier in {"device", "draining"}),
    "host": ("host", lambda row: row.tier == "host"),
    "disk": ("disk", lambda row: row.tier == "disk"),
    "remote": ("remote", lambda row: row.tier == "remote"),
    "loading": ("loading", lambda row: row.tier == "loading"),
    "pinned": ("pinned", lambda row: row.pinned),
    "drift": ("out of sync", is_drifting),
}
ALTERNATIVES: Final = frozenset({"device", "host", "disk", "remote", "loading"})
SORTS: Final[dict[str, Callable[[AdapterRow], Any]]] = {
    "alias": lambda row: row.alias,
    "rank": lambda row: row.rank,
    "bytes": lambda row: row.bytes,
    "tier": lambda row: TIER_ORDER[row.tier],
    "leases": lambda row: row.leases,
    "rpm": lambda row: row.requests_per_min,
    "ttft": lambda row: -1.0 if row.ttft_p95_s is None else row.ttft_p95_s,
    "cold": lambda row: -1.0 if (share := cold_share(row)) is None else share,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterQuery:
    """One state of the page, as its address says it."""

    view: str = "all"
    q: str = ""
    facets: frozenset[str] = frozenset()
    sort: str = "rpm"
    descending: bool = True
    page: int = 1
    size: int = SIZES[0]
    open: str = ""

    @classmethod
    def from_address(cls, address: Mapping[str, Any]) -> AdapterQuery:
        """Read an address; what it gets wrong falls back to the default."""
        sort = str(address.get("sort", "-rpm"))
        size = _whole(address.get("size"), SIZES[0])
        return cls(
            view=str(address.get("view")) if address.get("view") in VIEWS else "all",
            q=str(address.get("q", ""))[:200],
            facets=frozenset(str(address.get("facets", "")).split(",")) & FACETS.keys(),
            sort=sort.lstrip("-") if sort.lstrip("-") in SORTS else "rpm",
            descending=sort.startswith("-"),
            page=max(1, _whole(address.get("page"), 1)),
            size=size if size in SIZES else SIZES[0],
            open=str(address.get("open", ""))[:200],
        )

    @property
    def address(self) -> str:
        """The address that brings this state back; defaults are left out."""
        sort = f"-{self.sort}" if self.descending else self.sort
        facets = ",".join(sorted(self.facets))
        values = {"view": self.view, "q": self.q, "facets": facets, "sort": sort, "page": self.page, "size": self.size, "open": self.open}
        plain = {"view": "all", "q": "", "facets": "", "sort": "-rpm", "page": 1, "size": SIZES[0], "open": ""}
        changed = {key: value for key, value in values.items() if value != plain[key]}
        return "/adapters" + (f"?{urlencode(changed)}" if changed else "")

    def with_facet(self, name: str) -> AdapterQuery:
        """The same with one facet switched, from the first page."""
        return replace(self, facets=self.facets ^ {name}, page=1)

    def sorted_by(self, key: str) -> AdapterQuery:
        """The same in another order; the same key again turns it round."""
        return replace(self, sort=key, descending=not self.descending if key == self.sort else key != "alias", page=1)


def _whole(value: object, default: int) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 7 else default  # noqa: PLR2004 - pages and sizes are short


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a query finds."""

    rows: tuple[AdapterRow, ...]
    """This page's."""
    found: int
    registered: int
    view_counts: dict[str, int]
    facet_counts: dict[str, int]
    """Within the view."""
    page: int
    pages: int


def select(rows: Sequence[AdapterRow], query: AdapterQuery) -> Selection:
    """Filter, order and cut."""
    in_view = [row for row in rows if VIEWS[query.view][1](row)]
    found = [row for row in in_view if fits_facets(row, query.facets)]
    for test in words_of(query.q):
        found = [row for row in found if test(row)]
    found.sort(key=lambda row: row.alias)
    found.sort(key=SORTS[query.sort], reverse=query.descending)
    pages = max(1, -(-len(found) // query.size))
    page = min(query.page, pages)
    return Selection(
        rows=tuple(found[(page - 1) * query.size : page * query.size]),
        found=len(found),
        registered=len(rows),
        view_counts={name: sum(map(test, rows)) for name, (_, test) in VIEWS.items()},
        facet_counts={name: sum(map(test, in_view)) for name, (_, test) in FACETS.items()},
        page=page,
        pages=pages,
    )


def fits_facets(row: AdapterRow, facets: frozenset[str]) -> bool:
    """Any of the chosen places, and all of the other chosen facets."""
    places = facets & ALTERNATIVES
    if places and not any(FACETS[name][1](row) for name in places):
        return False
    return all(FACETS[name][1](row) for name in facets - ALTERNATIVES)


def words_of(text: str) -> list[Callable[[AdapterRow], bool]]:
    """One test a word: ``tenant:acme tier:host pinned:true leased:true rank:>16 idle:>7d``, else part of alias or version."""
    return [_word(word) for word in text.lower().split()]


def _word(word: str) -> Callable[[AdapterRow], bool]:
    match = TOKEN.match(word)
    if match is None:
        return lambda row: word in row.alias.lower() or row.id.startswith(word)
    key, value = match.groups()
    tests: dict[str, Callable[[AdapterRow], bool]] = {
        "tenant": lambda row: row.tenant.lower() == value,
        "tier": lambda row: row.tier == value,
        "pinned": lambda row: row.pinned == _true(value),
        "leased": lambda row: (row.leases > 0) == _true(value),
        "rank": lambda row: _compare(row.rank, value, float),
        "idle": lambda row: _compare(_idle_s(row), value, _age_s),
    }
    return tests[key]


def _true(value: str) -> bool:
    return value in {"true", "yes", "1"}


def _idle_s(row: AdapterRow) -> float:
    return time.time() - (row.last_used_unix or row.registered_unix)


def _age_s(value: str) -> float:
    return float(value[:-1]) * AGES_S[value[-1]] if value[-1:] in AGES_S else float(value)


def _compare(actual: float, wanted: str, read: Callable[[str], float]) -> bool:
    match = re.match(r"^(>=|<=|>|<|=)?(.+)$", wanted)
    assert match is not None, "a word has at least one character after its colon"
    sign, value = match.groups()
    try:
        limit = read(value)
    except ValueError:
        return False
    return {">": actual > limit, ">=": actual >= limit, "<": actual < limit, "<=": actual <= limit}.get(sign, actual == limit)
