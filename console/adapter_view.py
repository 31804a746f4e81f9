"""The state of one open adapters page: its query, what it found, what is ticked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks, ui

from console.query import STORED_VIEWS, AdapterQuery, Selection, select
from console.stored import StoredPage, opened_ref
from engine import LoradeckError, TenantId

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui.element import Element

    from console.feed import Feed
    from console.shelf import Shelf
    from console.stored import OpenedRef
    from console.version_actions import VersionActions
    from engine import AdapterRow

TICKS_BETWEEN_COUNTS: Final = 10
"""The registry is asked again for its counts this often, in pulls of the page."""


class AdapterView:
    """Belongs to one client. Rows keep their places while numbers move; only a question reorders them."""

    def __init__(self, feed: Feed, query: AdapterQuery, versions: VersionActions, place: Element) -> None:
        self.feed = feed
        self.query = query
        self.versions = versions
        self.ticked: list[str] = []
        self.stored = StoredPage()
        self.stored_counts: dict[str, int] = {}
        self._is_counted = False
        self.found: Selection = select(self.shelf, query)
        self._place = place
        """Whose page it is: what is loaded later belongs to it."""
        self._revision = feed.adapters_revision
        self._members = self.shelf.members
        self._pulls = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def tenant(self) -> TenantId | None:
        """Whose rows are shown; None is of all that the visitor may see."""
        return TenantId(self.query.tenant) if self.query.tenant else None

    @property
    def shelf(self) -> Shelf:
        """The rows that may be shown."""
        return self.feed.shelves.of(self.tenant)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` now and after every change of what is shown."""
        self._listeners.append(listener)
        listener()

    def forget(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners = [one for one in self._listeners if one is not listener]

    def ask(self, query: AdapterQuery) -> None:
        """Show another query, and put it into the address."""
        self.query = query
        self._find()
        ui.navigate.history.replace(query.address)
        self._tell()
        self.load_stored()

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - the query's own fields
        """Ask the same with some fields changed; a new question starts on its first page."""
        if not fields.keys() & {"page", "open", "tab"}:
            fields["page"] = 1
        self.ask(replace(self.query, **fields))

    def open_row(self, key: str) -> None:
        """Open a row, or close it when it is open. By its name where that is clear, so that the drawer follows the name when it moves."""
        row, opened = self.feed.adapter(key), self.opened
        if opened is not None and opened.id == key:
            self.change(open="")
        else:
            self.change(open=row.alias if row is not None and self.feed.adapter(row.alias) is row else key)

    def tick(self, ids: list[str], *, on: bool) -> None:
        """Tick or untick rows."""
        kept = [key for key in self.ticked if key not in ids]
        self.ticked = [*kept, *ids] if on else kept
        self._tell()

    def count(self, view: str) -> int | None:
        """How many rows a saved view has; None before the registry has answered."""
        if view not in STORED_VIEWS:
            return self.shelf.count(view)
        return sum(self.stored_counts.get(state, 0) for state in STORED_VIEWS[view][1]) if self._is_counted else None

    @property
    def opened(self) -> AdapterRow | None:
        """The row in the drawer."""
        return self.feed.adapter(self.query.open) if self.query.open else None

    @property
    def opened_stored(self) -> OpenedRef | None:
        """The version in the drawer, where nothing serves it."""
        return opened_ref(self.query.open) if self.query.open and self.opened is None else None

    @property
    def ticked_rows(self) -> list[AdapterRow]:
        """Ticked rows that still exist."""
        found = (self.feed.adapter(key) for key in self.ticked)
        return [row for row in found if row is not None]

    def refresh(self) -> None:
        """Take the newest rows; their order stays unless some came or went."""
        self._pulls += 1
        if self._pulls % TICKS_BETWEEN_COUNTS == 0:
            self.load_stored()
        if self._revision == self.feed.adapters_revision:
            return
        self._revision = self.feed.adapters_revision
        if self._members != self.shelf.members:
            self._find()
        else:
            known = self.shelf.rows
            self.found = replace(self.found, rows=tuple(known[row.id] for row in self.found.rows if row.id in known))
        self._tell()

    def load_stored(self) -> None:
        """Ask the registry for its counts, and for the page that is shown where that is its own."""
        background_tasks.create(self._load(self.query), context=self._place)

    async def _load(self, query: AdapterQuery) -> None:
        try:
            counts = await self.versions.tally(self.tenant)
            page = await self._stored_page(query)
        except LoradeckError as error:
            counts, page = self.stored_counts, StoredPage(fault=error)
        else:
            self._is_counted = True
        if query is self.query:
            self.stored_counts, self.stored = counts, page
            self._tell()

    async def _stored_page(self, query: AdapterQuery) -> StoredPage:
        if not query.is_stored:
            return StoredPage()
        states = STORED_VIEWS[query.view][1]
        return await self.versions.stored(states, tenant=self.tenant, text=query.q, page=query.page, size=query.size)

    def _find(self) -> None:
        self.found = select(self.shelf, self.query)
        self._members = self.shelf.members

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
