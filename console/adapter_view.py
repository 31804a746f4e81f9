"""The state of one open adapters page: its query, what it found, what is ticked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui

from console.query import AdapterQuery, Selection, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.feed import Feed
    from engine import AdapterRow


class AdapterView:
    """Belongs to one client. Rows keep their places while numbers move; only a question reorders them."""

    def __init__(self, feed: Feed, query: AdapterQuery) -> None:
        self.feed = feed
        self.query = query
        self.ticked: list[str] = []
        self.found: Selection = select(feed.snapshot.adapters, query)
        self._revision = feed.adapters_revision
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` now and after every change of what is shown."""
        self._listeners.append(listener)
        listener()

    def ask(self, query: AdapterQuery) -> None:
        """Show another query, and put it into the address."""
        self.query = query
        self.found = select(self.feed.snapshot.adapters, query)
        ui.navigate.history.replace(query.address)
        self._tell()

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - the query's own fields
        """Ask the same with some fields changed; a new question starts on its first page."""
        if not fields.keys() & {"page", "open"}:
            fields["page"] = 1
        self.ask(replace(self.query, **fields))

    def tick(self, ids: list[str], *, on: bool) -> None:
        """Tick or untick rows."""
        kept = [key for key in self.ticked if key not in ids]
        self.ticked = [*kept, *ids] if on else kept
        self._tell()

    @property
    def opened(self) -> AdapterRow | None:
        """The row in the drawer."""
        return self.feed.adapter(self.query.open) if self.query.open else None

    @property
    def ticked_rows(self) -> list[AdapterRow]:
        """Ticked rows that still exist."""
        chosen = set(self.ticked)
        return [row for row in self.feed.snapshot.adapters if row.id in chosen]

    def refresh(self) -> None:
        """Take the newest rows; their order stays unless some came or went."""
        if self._revision == self.feed.adapters_revision:
            return
        self._revision = self.feed.adapters_revision
        fresh = select(self.feed.snapshot.adapters, self.query)
        places = {row.id: place for place, row in enumerate(self.found.rows)}
        if fresh.registered == self.found.registered:
            by_id = {row.id: row for row in self.feed.snapshot.adapters}
            same = tuple(by_id[key] for key in places if key in by_id)
            fresh = replace(fresh, rows=same if len(same) == len(places) and places else fresh.rows)
        self.found = fresh
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
