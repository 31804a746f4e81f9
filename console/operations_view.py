"""The state of one open operations page: which page, what is open, and what the registry last said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from console.operation_words import UNFINISHED
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nicegui.element import Element

    from console.import_actions import ImportActions
    from engine import ItemRecord, ItemState, Progress

SHOWN: Final = 25
ROWS_SHOWN: Final = 50
IDLE_PULLS: Final = 5
"""While nothing runs the registry is asked only this often, in pulls of the page."""
ITEM_STATES: Final[dict[str, ItemState | None]] = {"all": None, "waiting": "waiting", "done": "done", "rejected": "rejected"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsQuery:
    """One state of the page, as its address says it."""

    page: int = 1
    open: str = ""
    rows: str = "all"
    rows_page: int = 1

    @classmethod
    def from_address(cls, address: Mapping[str, str]) -> OperationsQuery:
        """Read an address; what it gets wrong falls back to the default."""
        rows = str(address.get("rows", "all"))
        return cls(
            page=_page(address.get("page")),
            open=str(address.get("open", ""))[:80],
            rows=rows if rows in ITEM_STATES else "all",
            rows_page=_page(address.get("rows_page")),
        )

    @property
    def address(self) -> str:
        """The address that brings this state back; defaults are left out."""
        plain = OperationsQuery()
        values = {name: getattr(self, name) for name in ("page", "open", "rows", "rows_page")}
        changed = {name: value for name, value in values.items() if value != getattr(plain, name)}
        return "/operations" + (f"?{urlencode(changed)}" if changed else "")


def _page(text: str | None) -> int:
    return max(1, int(text)) if text is not None and text.isascii() and text.isdecimal() and len(text) < 7 else 1  # noqa: PLR2004 - pages are short


class OperationsView:
    """Belongs to one client."""

    def __init__(self, actions: ImportActions, query: OperationsQuery, place: Element) -> None:
        self.actions = actions
        self.query = query
        self.listed: list[Progress] | None = None
        """None before the first answer."""
        self.more = False
        self.opened: Progress | None = None
        self.items: list[ItemRecord] = []
        self.fault: LoradeckError | None = None
        self._place = place
        self._pulls = 0
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` now and after every change of what is shown."""
        self._listeners.append(listener)
        listener()

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - the query's own fields
        """Ask with some fields changed, and put that into the address."""
        self.query = replace(self.query, **fields)
        if "open" in fields:
            self.opened, self.items = None, []
        ui.navigate.history.replace(self.query.address)
        self._tell()
        self.load()

    def pull(self) -> None:
        """Ask again: each time while something runs, else now and then."""
        self._pulls += 1
        known = [*(self.listed or ()), *([self.opened] if self.opened else [])]
        if self._pulls % IDLE_PULLS == 0 or any(one.record.state in UNFINISHED for one in known):
            self.load()

    def load(self) -> None:
        """Ask the registry."""
        background_tasks.create(self._load(self.query), context=self._place)

    async def _load(self, query: OperationsQuery) -> None:
        opened, items, fault = None, [], None
        try:
            listed = await self.actions.page(offset=(query.page - 1) * SHOWN, limit=SHOWN + 1)
            if query.open:
                opened = await self.actions.get(query.open)
                first = (query.rows_page - 1) * ROWS_SHOWN
                items = await self.actions.rows(query.open, state=ITEM_STATES[query.rows], offset=first, limit=ROWS_SHOWN)
        except LoradeckError as error:
            listed, fault = self.listed or [], error
        if query is not self.query:
            return
        self.listed, self.more = listed[:SHOWN], len(listed) > SHOWN
        self.opened, self.items, self.fault = opened, items, fault
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
