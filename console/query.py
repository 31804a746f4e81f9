"""What the adapters page shows: view, tenant, facets, filter words, order, page, what is open; and its address. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from console.filter_words import words_of
from console.views import ALTERNATIVES, FACETS, STATE_ORDER, VIEWS, cold_share, mark, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.shelf import Shelf
    from engine import AdapterRow, VersionState

SIZES: Final = (25, 50)
TIERS: Final = ("device", "host", "disk", "remote")
TIER_ORDER: Final = {"device": 0, "draining": 1, "loading": 2, "host": 3, "disk": 4, "remote": 5}
STORED_VIEWS: Final[dict[str, tuple[str, tuple[VersionState, ...]]]] = {
    "rejected": ("Rejected", ("rejected",)),
    "retired": ("Retired", ("retired", "archived")),
}
"""Of what does not serve: pages of the registry, by a version's states."""
TABS: Final = {"overview": "Overview", "versions": "Versions", "validation": "Validation", "audit": "Audit"}
SORTS: Final[dict[str, Callable[[AdapterRow], Any]]] = {
    "alias": lambda row: row.alias,
    "state": lambda row: STATE_ORDER.index(state_of(row)),
    "rank": lambda row: row.rank,
    "bytes": lambda row: row.bytes,
    "tier": lambda row: TIER_ORDER[row.tier],
    "leases": lambda row: row.leases,
    "rpm": lambda row: row.requests_per_min,
    "ttft": lambda row: -1.0 if row.ttft_p95_s is None else row.ttft_p95_s,
    "cold": lambda row: -1.0 if (share := cold_share(row)) is None else share,
}
PLAIN: Final = {
    "view": "all",
    "tenant": "",
    "q": "",
    "facets": "",
    "sort": "-rpm",
    "page": 1,
    "size": SIZES[0],
    "open": "",
    "tab": "overview",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterQuery:
    """One state of the page, as its address says it."""

    view: str = "all"
    tenant: str = ""
    q: str = ""
    facets: frozenset[str] = frozenset()
    sort: str = "rpm"
    descending: bool = True
    page: int = 1
    size: int = SIZES[0]
    open: str = ""
    """A version id or an alias; of what does not serve ``tenant:line@number``."""
    tab: str = "overview"

    @classmethod
    def from_address(cls, address: Mapping[str, Any]) -> AdapterQuery:
        """Read an address; what it gets wrong falls back to the default."""
        sort = str(address.get("sort", "-rpm"))
        size = _whole(address.get("size"), SIZES[0])
        return cls(
            view=_one_of(address, "view", {**VIEWS, **STORED_VIEWS}),
            tenant=str(address.get("tenant", ""))[:200],
            q=str(address.get("q", ""))[:200],
            facets=frozenset(str(address.get("facets", "")).split(",")) & FACETS.keys(),
            sort=sort.lstrip("-") if sort.lstrip("-") in SORTS else "rpm",
            descending=sort.startswith("-"),
            page=max(1, _whole(address.get("page"), 1)),
            size=size if size in SIZES else SIZES[0],
            open=str(address.get("open", ""))[:300],
            tab=_one_of(address, "tab", TABS),
        )

    @property
    def address(self) -> str:
        """The address that brings this state back; defaults are left out."""
        values = {name: getattr(self, name) for name in PLAIN}
        values |= {"sort": f"-{self.sort}" if self.descending else self.sort, "facets": ",".join(sorted(self.facets))}
        if not self.open:
            values["tab"] = PLAIN["tab"]
        changed = {key: value for key, value in values.items() if value != PLAIN[key]}
        return "/adapters" + (f"?{urlencode(changed)}" if changed else "")

    @property
    def is_stored(self) -> bool:
        """Whether the view is of what the registry keeps and nothing serves."""
        return self.view in STORED_VIEWS

    def with_facet(self, name: str) -> AdapterQuery:
        """The same with one facet switched, from the first page."""
        return replace(self, facets=self.facets ^ {name}, page=1)

    def sorted_by(self, key: str) -> AdapterQuery:
        """The same in another order; the same key again turns it round."""
        return replace(self, sort=key, descending=not self.descending if key == self.sort else key not in {"alias", "state"}, page=1)


def _one_of(address: Mapping[str, Any], name: str, known: Mapping[str, object]) -> str:
    found = str(address.get(name))
    return found if found in known else str(PLAIN[name])


def _whole(value: object, default: int) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 7 else default  # noqa: PLR2004 - pages and sizes are short


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a query finds among what serves."""

    rows: tuple[AdapterRow, ...]
    """This page's."""
    found: int
    page: int
    pages: int


def select(shelf: Shelf, query: AdapterQuery) -> Selection:
    """Filter, order and cut."""
    wanted = mark(*(query.facets - ALTERNATIVES), *({query.view} & VIEWS.keys()))
    found = shelf.having(wanted, mark(*(query.facets & ALTERNATIVES)))
    for test in words_of(query.q):
        found = [row for row in found if test(row)]
    pages = max(1, -(-len(found) // query.size))
    page = min(query.page, pages)
    end = page * query.size
    if query.sort == "alias":
        ordered = found[::-1] if query.descending else found
    elif query.descending:
        ordered = nlargest(end, found, key=SORTS[query.sort])
    else:
        ordered = nsmallest(end, found, key=SORTS[query.sort])
    return Selection(rows=tuple(ordered[end - query.size : end]), found=len(found), page=page, pages=pages)
