"""In which order a plan comes to the lanes that wait."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from engine.scheduler.queues import rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.scheduler.order import Due, GroupOrder
    from engine.scheduler.queues import Group, Lane, Rank

    Ranked = list[tuple[Rank, Lane]]


class Turns:
    """Lanes by the standing of their group, then by the rank of their heads: each once, and again for its next head when asked.

    Of all that an ``order`` has, or only some: ``lanes_of`` each group, in order. Groups and lanes are only touched when their turn comes.
    """

    def __init__(self, order: GroupOrder | None = None, *, lanes_of: Mapping[Group, Ranked] | None = None) -> None:
        self._order = order
        self._lanes_of = lanes_of or {}
        self._started: dict[Group, tuple[Ranked, Ranked]] = {}
        """Lanes of a group that has had a turn: those to come, in order with the next last, and a heap of those to come again."""
        self._due: list[Due] = [(group.account.counter, lanes[0][0], group) for group, lanes in self._lanes_of.items()]
        """Groups whose turn comes, or comes again, beside those that the ``order`` has yet to give."""
        heapq.heapify(self._due)
        self._group: Group | None = None
        self._others = -math.inf
        """Where the next group stands: below it, the one whose turn it was has the next one, too."""
        if order is not None:
            order.begin()

    def next(self) -> Lane | None:
        """Whose head is next; None when all had their turn."""
        group = self._group
        if group is not None and not (group.account.counter < self._others and any(self._started[group])):
            self._come_back(group)
            group = None
        if group is None:
            group = self._group = self._next_group()
        if group is None:
            return None
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

    def _next_group(self) -> Group | None:
        coming = self._coming()
        if self._due and (coming is None or self._due[0] < coming):
            group = heapq.heappop(self._due)[2]
        elif self._order is not None and coming is not None:
            self._order.take()
            group = coming[2]
        else:
            return None
        if group not in self._started:
            self._started[group] = (self._lanes_of.get(group, group.ranked)[::-1], [])
        self._others = -math.inf
        if len(group.ranked) > 1:
            nearest = [due[0] for due in (self._coming(), *self._due[:1]) if due is not None]
            self._others = min(nearest, default=math.inf)
        return group

    def _coming(self) -> Due | None:
        return None if self._order is None else self._order.first()

    def _come_back(self, group: Group) -> None:
        """Put the group that had the last turn where it belongs now."""
        first, again = self._started[group]
        if first and not (again and again[0][0] < first[-1][0]):
            heapq.heappush(self._due, (group.account.counter, first[-1][0], group))
        elif again:
            heapq.heappush(self._due, (group.account.counter, again[0][0], group))
