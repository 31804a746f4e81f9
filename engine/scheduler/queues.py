"""Sequences that wait, in lanes of one tenant and adapter each, with the reason and how long."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.ids import AdapterId, TenantId, WaitReason
    from engine.sequence import Sequence

LaneKey = tuple["TenantId", "AdapterId | None"]

arrival = attrgetter("key")


class Order(Protocol):
    """Who goes first: the lowest rank. Asked anew for each head of a lane in each plan."""

    def __call__(self, sequence: Sequence, /) -> tuple[float, ...]:
        """The rank of a lane's first sequence."""
        ...


def by_arrival(sequence: Sequence) -> tuple[float, ...]:
    """Oldest first, whoever asks."""
    return (sequence.key,)


class Lane:
    """Waiting sequences of one tenant and one adapter, oldest first. What blocks the first blocks all."""

    def __init__(self, key: LaneKey, *, number: int) -> None:
        self.key = key
        self.number = number
        self.sequences: list[Sequence] = []
        self._reason: WaitReason | None = None
        self._unblamed: dict[int, Sequence] = {}

    @property
    def adapter(self) -> AdapterId | None:
        """What they all wait to run with."""
        return self.key[1]

    @property
    def head(self) -> Sequence:
        """Who is next."""
        return self.sequences[0]

    def join(self, sequence: Sequence) -> None:
        """Put a sequence at its place by arrival."""
        insort(self.sequences, sequence, key=arrival)
        self._unblamed[sequence.key] = sequence

    def leave(self, sequence: Sequence) -> None:
        """Take a sequence out."""
        at = bisect_left(self.sequences, sequence.key, key=arrival)
        assert self.sequences[at] is sequence, f"sequence {sequence.key} is not in its lane"
        del self.sequences[at]
        self._unblamed.pop(sequence.key, None)

    def must_hear(self, reason: WaitReason) -> bool:
        """Whether ``blame`` would change anything."""
        return bool(self._unblamed) or reason != self._reason

    def blame(self, reason: WaitReason, now_s: float) -> list[Sequence]:
        """Say why all of them wait from now on; those that had no reason or another one."""
        changed = list(self._unblamed.values()) if reason == self._reason else list(self.sequences)
        for sequence in changed:
            charge(sequence, now_s)
            sequence.wait_reason = reason
        self._reason = reason
        self._unblamed.clear()
        return changed


class Turns:
    """Lanes in the order of their heads: each once, and again for its next head when asked."""

    def __init__(self, lanes: Iterable[Lane], order: Order) -> None:
        self._order = order
        self._first = [(order(lane.head), lane.number, lane) for lane in lanes]
        self._first.sort(reverse=True)  # the next is the last
        self._again: list[tuple[tuple[float, ...], int, Lane]] = []  # a heap

    def next(self) -> Lane | None:
        """Whose head is next; None when all had their turn."""
        if self._again and not (self._first and self._first[-1] < self._again[0]):
            return heapq.heappop(self._again)[2]
        return self._first.pop()[2] if self._first else None

    def again(self, lane: Lane) -> None:
        """Its head is gone: the one behind, if any, takes a turn."""
        if lane.sequences:
            heapq.heappush(self._again, (self._order(lane.head), lane.number, lane))


class WaitingQueue:
    """All waiting sequences by lane. Owned by the engine thread."""

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self._by_adapter: dict[AdapterId | None, int] = {}
        self._size = 0
        self._lanes_made = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        for lane in self.lanes.values():
            yield from lane.sequences

    def has_adapter(self, adapter: AdapterId | None) -> bool:
        """Whether a sequence waits for it."""
        return adapter in self._by_adapter

    def push(self, sequence: Sequence, now_s: float) -> None:
        """Start waiting."""
        sequence.state = "waiting"
        sequence.wait_reason = None
        sequence.waiting_since_s = now_s
        key = (sequence.tenant, sequence.adapter)
        if key not in self.lanes:
            self._lanes_made += 1
            self.lanes[key] = Lane(key, number=self._lanes_made)
        self.lanes[key].join(sequence)
        self._by_adapter[sequence.adapter] = self._by_adapter.get(sequence.adapter, 0) + 1
        self._size += 1

    def remove(self, sequence: Sequence, now_s: float) -> None:
        """Stop waiting; ``waits`` is complete afterwards."""
        key = (sequence.tenant, sequence.adapter)
        self.lanes[key].leave(sequence)
        charge(sequence, now_s)
        sequence.wait_reason = None
        if not self.lanes[key].sequences:
            del self.lanes[key]
        self._by_adapter[sequence.adapter] -= 1
        if not self._by_adapter[sequence.adapter]:
            del self._by_adapter[sequence.adapter]
        self._size -= 1

    def flush(self, now_s: float) -> None:
        """Bring every waiting sequence's ``waits`` up to date."""
        for sequence in self:
            charge(sequence, now_s)

    def check(self) -> None:
        """Prove that lanes, counts and states agree."""
        assert self._size == sum(len(lane.sequences) for lane in self.lanes.values()), "size is off"
        for key, lane in self.lanes.items():
            assert lane.sequences, f"lane {key} is empty"
            assert [s.key for s in lane.sequences] == sorted(s.key for s in lane.sequences), "a lane is out of order"
            for sequence in lane.sequences:
                assert sequence.state == "waiting", f"a waiting sequence is {sequence.state}"
                assert not sequence.pages, "a waiting sequence holds pages"
                assert not sequence.leased, "a waiting sequence holds a lease"
        counts = {adapter: sum(s.adapter == adapter for s in self) for adapter in self._by_adapter}
        assert counts == self._by_adapter, "adapter counts are off"


def charge(sequence: Sequence, now_s: float) -> None:
    """Add the time waited since the last charge to its reason; time before the first reason is known goes to that one."""
    if sequence.wait_reason is None:
        return
    waited_s = now_s - sequence.waiting_since_s
    sequence.waits[sequence.wait_reason] = sequence.waits.get(sequence.wait_reason, 0.0) + waited_s
    sequence.waiting_since_s = now_s
