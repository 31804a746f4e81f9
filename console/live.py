"""One open page and its pulse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.feed import Feed

PULL_S: Final = 1.0


class Live:
    """Pulls the feed for one client; it ends with the client, because its timer does."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.paused = False
        self._updates: list[Callable[[], None]] = []
        self._seen_ticks = -1

    def every(self, update: Callable[[], None]) -> None:
        """Run ``update`` now and after each new sample."""
        self._updates.append(update)
        update()

    def start(self) -> None:
        """Begin to pull; the timer waits for the browser's connection."""
        self._seen_ticks = self.feed.ticks
        ui.timer(PULL_S, self.pull)

    def pull(self) -> None:
        """Show the newest sample, once."""
        if self.paused or self._seen_ticks == self.feed.ticks:
            return
        self.refresh()

    def refresh(self) -> None:
        """Show the newest sample whether or not it was seen before."""
        self._seen_ticks = self.feed.ticks
        for update in self._updates:
            update()
