"""In which order a plan comes to the lanes that wait."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from engine.scheduler.queues import rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.scheduler.fairness import FairShare
    from engine.scheduler.queues import Group, Lane, Rank


class Turns:
    """Lanes by the standing of their group, then by the rank of their heads: each once, and again for its next head when asked.

    Starting costs the number of groups, a turn the logarithm of it: lanes are only touched when their turn comes.
    """

    def __init__(self, lanes_of: Iterable[tuple[Group, list[tuple[Rank, Lane]]]], shares: FairShare) -> None:
        self._shares = shares
        self._first: dict[int, list[tuple[Rank, Lane]]] = {}
        """By group number, in order, the next last; made when the group is first come to."""
        self._again: dict[int, list[tuple[Rank, Lane]]] = {}
        """By group number, heaps."""
        self._lanes: dict[int, list[tuple[Rank, Lane]]] = {}
        self._due: list[tuple[float, Rank, Group]] = []
        self._group: Group | None = None
        for group, lanes in lanes_of:
            self._lanes[group.number] = lanes
            self._due.append((self._standing(group), lanes[0][0], group))
        heapq.heapify(self._due)

    def next(self) -> Lane | None:
        """Whose head is next; None when all had their turn."""
        self._come_back()
        if not self._due:
            return None
        _, _, group = heapq.heappop(self._due)
        self._group = group
        if group.number not in self._first:
            self._first[group.number] = self._lanes[group.number][::-1]
            self._again[group.number] = []
        first, again = self._first[group.number], self._again[group.number]
        if again and not (first and first[-1][0] < again[0][0]):
            return heapq.heappop(again)[1]
        return first.pop()[1]

    def again(self, lane: Lane) -> None:
        """The head of the lane whose turn it was is gone: the one behind, if any, takes a turn."""
        if lane.sequences:
            heapq.heappush(self._again[lane.group.number], (rank(lane.head), lane))

    def skip_group(self) -> None:
        """Nobody of the group whose turn it was has another one."""
        self._group = None

    def _come_back(self) -> None:
        """Put the group that had the last turn where it belongs now."""
        if self._group is None:
            return
        group, self._group = self._group, None
        ranks = [entries[at][0] for entries, at in ((self._first[group.number], -1), (self._again[group.number], 0)) if entries]
        if ranks:
            heapq.heappush(self._due, (self._standing(group), min(ranks), group))

    def _standing(self, group: Group) -> float:
        return 0.0 if group.tenant is None else self._shares.standing(group.tenant)
