"""Sums over every registered version, kept as they change: thousands that lie idle cost nothing. Owned by the engine thread."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.adapters.entry import AdapterEntry
    from engine.ids import AdapterId
    from engine.version import VersionRecord


class Roster:
    """Who is pinned, how much is stored, and how large the largest is. ``reserve_pages`` may be read by any thread."""

    def __init__(self) -> None:
        self.pinned: dict[AdapterId, AdapterEntry] = {}
        """To any tier."""
        self.stored_bytes = 0
        self.reserve_pages = 0
        """What KV must leave so that every adapter can come in: the pages of those pinned to the device, and of the largest other."""
        self._sizes: Counter[int] = Counter()

    @property
    def largest_pages(self) -> int:
        """Of the largest version; 0 without any."""
        return max(self._sizes, default=0)

    def count(self, record: VersionRecord, by: Literal[1, -1]) -> None:
        """It is registered, or no longer is."""
        self._sizes[record.num_pages] += by
        if not self._sizes[record.num_pages]:
            del self._sizes[record.num_pages]
        self.stored_bytes += by * record.bytes
        if by == 1 and not self.pinned:
            self.reserve_pages = max(self.reserve_pages, record.num_pages)  # as of thousands, at a start
        else:
            self.reserve_pages = self._reserve()

    def repinned(self, entry: AdapterEntry) -> None:
        """Its pin came, changed or went."""
        if entry.pin is None:
            self.pinned.pop(entry.record.id, None)
        else:
            self.pinned[entry.record.id] = entry
        self.reserve_pages = self._reserve()

    def check(self, entries: Iterable[AdapterEntry]) -> None:
        """The sums are those of the entries."""
        found = list(entries)
        assert self.reserve_pages == self._reserve()
        assert Counter(entry.record.num_pages for entry in found) == self._sizes
        assert sum(entry.record.bytes for entry in found) == self.stored_bytes
        assert [entry.record.id for entry in found if entry.pin is not None] == [e.record.id for e in found if e.record.id in self.pinned]

    def _reserve(self) -> int:
        on_device = [entry.record.num_pages for entry in self.pinned.values() if entry.pin is not None and entry.pin.tier == "device"]
        return sum(on_device) + max(self._sizes - Counter(on_device), default=0)
