"""In which order a plan comes to the lanes that wait."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from engine.scheduler.queues import rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.scheduler.queues import Group, Lane, Rank

    Ranked = list[tuple[Rank, Lane]]


class Turns:
    """Lanes by the standing of their group, then by the rank of their heads: each once, and again for its next head when asked.

    Starting costs the number of groups, a turn the logarithm of it: lanes are only touched when their turn comes.
    """

    def __init__(self, groups: Iterable[Group], lanes_of: Mapping[Group, Ranked] | None = None) -> None:
        self._lanes_of = lanes_of
        """By group, in order; None: all that it has."""
        self._started: dict[Group, tuple[Ranked, Ranked]] = {}
        """Lanes of a group that has had a turn: those to come, in order with the next last, and a heap of those to come again."""
        if lanes_of is None:
            self._due = [(group.account.counter, group.ranked[0][0], group) for group in groups]
        else:
            self._due = [(group.account.counter, lanes_of[group][0][0], group) for group in groups]
        heapq.heapify(self._due)
        self._group: Group | None = None

    def next(self) -> Lane | None:
        """Whose head is next; None when all had their turn."""
        if self._group is not None:
            self._come_back(self._group)
        if not self._due:
            return None
        group = self._group = heapq.heappop(self._due)[2]
        if group not in self._started:
            lanes = group.ranked if self._lanes_of is None else self._lanes_of[group]
            self._started[group] = (lanes[::-1], [])
        first, again = self._started[group]
        if again and not (first and first[-1][0] < again[0][0]):
            return heapq.heappop(again)[1]
        return first.pop()[1]

    def again(self, lane: Lane) -> None:
        """The head of the lane whose turn it was is gone: the one behind, if any, takes a turn."""
        if lane.sequences:
            heapq.heappush(self._started[lane.group][1], (rank(lane.head), lane))

    def skip_group(self) -> None:
        """Nobody of the group whose turn it was has another one."""
        self._group = None

    def _come_back(self, group: Group) -> None:
        """Put the group that had the last turn where it belongs now."""
        first, again = self._started[group]
        if first and not (again and again[0][0] < first[-1][0]):
            heapq.heappush(self._due, (group.account.counter, first[-1][0], group))
        elif again:
            heapq.heappush(self._due, (group.account.counter, again[0][0], group))
        self._group = None
