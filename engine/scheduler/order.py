"""Groups of lanes in the order in which they are served, kept from plan to plan."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.scheduler.queues import Group, Rank

Due = tuple[float, "Rank", "Group"]
"""Where a group stands, the rank of its head, and the group; no two are alike in the first two."""


class GroupOrder:
    """By standing, then by the rank of their heads. A plan costs what it comes to, however many tenants wait. Owned by the engine thread.

    Sorted by what each group's place was when it was last looked at. Standings only rise, and behind a head that leaves is a later one:
    so a group's place is never before the one it is listed at, and it is put right when a plan comes to it. Only a head that is sooner
    than the one before moves a group forward; ``note`` does so at once.
    """

    def __init__(self) -> None:
        self._listed: list[Due] = []
        self._entries: dict[Group, Due] = {}
        self._at = 0
        """How many of those listed this plan has come to."""

    def note(self, group: Group) -> None:
        """It waits now, or has another head."""
        due, entry = place_of(group), self._entries.get(group)
        if entry is None or due < entry:
            self.forget(group)
            self._list(due)

    def forget(self, group: Group) -> None:
        """Nothing of it waits; nothing happens when it was not listed."""
        entry = self._entries.pop(group, None)
        if entry is not None:
            at = bisect_left(self._listed, entry)
            del self._listed[at]
            self._at -= at < self._at

    def begin(self) -> None:
        """A plan starts to come to them. Meanwhile none may come that is new or has a sooner head."""
        self._at = 0

    def first(self) -> Due | None:
        """The next that this plan has not come to; None when there is none."""
        while self._at < len(self._listed):
            entry = self._listed[self._at]
            standing, head, group = entry
            if standing == group.account.counter and head == group.ranked[0][0]:
                return entry
            del self._listed[self._at]
            self._list(place_of(group))
        return None

    def take(self) -> None:
        """This plan comes to the ``first``."""
        self._at += 1

    def check(self, groups: Iterable[Group]) -> None:
        """Prove that every group that waits is listed, none of them behind its place."""
        assert self._entries.keys() == set(groups), "a group that waits is not listed, or one that does not is"
        assert sorted(self._entries.values()) == self._listed, "groups are listed out of order"
        assert all(entry <= place_of(group) for group, entry in self._entries.items()), "a group moved forward unnoticed"

    def _list(self, due: Due) -> None:
        self._entries[due[2]] = due
        insort(self._listed, due)


def place_of(group: Group) -> Due:
    """Where a group that waits belongs now."""
    return (group.account.counter, group.ranked[0][0], group)
