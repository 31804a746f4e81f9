"""Adapters on the device that nothing holds there: what eviction may choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.adapters.eviction import Candidate, decayed, new_candidate

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from engine.adapters.entry import AdapterEntry
    from engine.ids import AdapterId


class IdleSet:
    """Kept as holds come and go: room is asked for many times in a step, and most that are on the device stay as they are.

    Owned by the engine thread. ``review`` is to be told of every lease, load, pin and move of a name that begins or ends.
    """

    def __init__(self) -> None:
        self.num_pages = 0
        """Of all of them."""
        self.num_joined = 0
        """Times that one came to be among them."""
        self._entries: dict[AdapterId, AdapterEntry] = {}

    def __contains__(self, adapter: object) -> bool:
        return adapter in self._entries

    def __iter__(self) -> Iterator[AdapterEntry]:
        return iter(self._entries.values())

    def pages_of(self, adapter: AdapterId | None) -> int:
        """What it would give back; 0 when it is not idle."""
        entry = None if adapter is None else self._entries.get(adapter)
        return 0 if entry is None else len(entry.pages)

    def candidates(self, now_s: float, in_host: Container[AdapterId]) -> list[Candidate]:
        """All of them, as eviction sees them; a copy in host memory makes one cheap to bring back."""
        found = []
        for adapter, entry in self._entries.items():
            frequency, reload_cost = decayed(entry.frequency, now_s - entry.frequency_s), 1.0 if adapter in in_host else 4.0
            facts = (adapter, len(entry.pages), frequency, reload_cost, entry.last_used_s, entry.users, entry.unused, 0, False)
            found.append(new_candidate(Candidate, facts))
        return found

    def review(self, entry: AdapterEntry) -> None:
        """Something that holds it came or went, or it came to the device; its pages are as they were when it joined."""
        was_idle = entry.record.id in self._entries
        if entry.is_idle == was_idle:
            return
        if was_idle:
            self.leave(entry)
        else:
            self._entries[entry.record.id] = entry
            self.num_pages += len(entry.pages)
            self.num_joined += 1

    def leave(self, entry: AdapterEntry) -> None:
        """It is about to give its pages back, or is held; nothing happens when it was not idle."""
        if self._entries.pop(entry.record.id, None) is not None:
            self.num_pages -= len(entry.pages)

    def check(self, resident: Iterable[AdapterEntry]) -> None:
        """Prove that nobody's review was forgotten."""
        idle = {entry.record.id: len(entry.pages) for entry in resident if entry.is_idle}
        assert idle.keys() == self._entries.keys(), "an adapter came to be idle, or held, unnoticed"
        assert sum(idle.values()) == self.num_pages, "pages of idle adapters are off"
