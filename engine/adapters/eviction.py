"""Which idle adapter leaves the device first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.ids import AdapterId

HALF_LIFE_S = 300.0
"""After so long without use a frequency counts half."""


class Candidate(NamedTuple):
    """A resident adapter, as eviction sees it. ``frequency`` is decayed to now. A tuple: every eviction makes one of each that is idle."""

    adapter: AdapterId
    pages: int
    frequency: float
    reload_cost: float
    """Relative cost to bring it back from where its copy is."""
    last_used_s: float
    waiting: int = 0
    """Requests that wait for it; it leaves after all that nobody waits for."""
    unused: bool = False
    """Nothing ran with it since it came. If requests wait for it, it came for them and leaves last: else loads evict one another."""
    leases: int = 0
    pinned: bool = False


new_candidate = tuple.__new__
"""What a NamedTuple's own constructor calls."""

Ranked = tuple[int, float, float, "AdapterId", Candidate]
"""In the order of leaving: whether requests wait for it (2: and it came for them), its score (the lower, the sooner), last use, id."""


class EvictionPolicy:
    """Picks victims: least recently used, or GDSF (Cherkasova 1998) with a clock that ages what is not used.

    Owned by the engine thread. A GDSF score is the clock at last use plus frequency · reload cost / pages; the clock moves to the
    highest score evicted, so an adapter once popular falls behind those used since.
    """

    def __init__(self, name: Literal["gdsf", "lru"]) -> None:
        self.name = name
        self.clock = 0.0
        self._clock_at_use: dict[AdapterId, tuple[float, float]] = {}

    def victims(self, candidates: Iterable[Candidate], pages_needed: int) -> list[Candidate]:
        """Who leaves so that ``pages_needed`` pages come back, lowest score first; empty when even all would not do.

        Never one that is leased or pinned. Those that requests wait for leave after all others, those brought for them last. Equal scores
        leave by age of last use, then by id.
        """
        return self.order(candidates).take(pages_needed)

    def order(self, candidates: Iterable[Candidate]) -> Order:
        """Who leaves first of all that may. One pass without a call: it is asked in most steps, of every idle adapter.

        One that was not idle at the last choice, or has another time of use, was used since: the clock now is its clock.
        """
        known, clock, by_use = self._clock_at_use, self.clock, self.name == "lru"
        queue: list[Ranked] = []
        clocks: dict[AdapterId, tuple[float, float]] = {}
        for candidate in candidates:
            adapter, pages, frequency, reload_cost, used_s, waiting, unused, leases, pinned = candidate
            if leases or pinned:
                continue
            at_use = known.get(adapter)
            if at_use is None or at_use[0] != used_s:
                at_use = (used_s, clock)
            clocks[adapter] = at_use
            score = used_s if by_use else at_use[1] + frequency * reload_cost / (pages or 1)
            queue.append((1 + unused if waiting else 0, score, used_s, adapter, candidate))
        heapq.heapify(queue)
        return Order(policy=self, queue=queue, clocks=clocks)

    def note_choice(self, order: Order, highest: float) -> None:
        """Some of an order leave, of which one has the highest score."""
        self._clock_at_use = order.clocks
        if self.name == "gdsf":
            self.clock = max(self.clock, highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Those that may leave, as it stood at one moment. Good for several choices, as long as none joins them or changes."""

    policy: EvictionPolicy
    queue: list[Ranked]
    """A heap."""
    clocks: dict[AdapterId, tuple[float, float]]
    """When each was last used, by time and by the policy's clock."""

    def take(self, pages_needed: int, *, is_idle: Callable[[AdapterId], bool] = lambda _: True) -> list[Candidate]:
        """Choose the next ones that hold enough pages, less those not needed after all; none when all would not do.

        Those that are not ``is_idle`` any more are passed over.
        """
        chosen: list[Ranked] = []
        held = 0
        while held < pages_needed and self.queue:
            ranked = heapq.heappop(self.queue)
            if is_idle(ranked[3]):
                chosen.append(ranked)
                held += ranked[4].pages
        enough = held >= pages_needed
        for ranked in reversed(chosen[:-1] if enough else chosen[:]):
            if not enough or held - ranked[4].pages >= pages_needed:
                chosen.remove(ranked)
                heapq.heappush(self.queue, ranked)
                held -= ranked[4].pages
        if chosen:
            self.policy.note_choice(self, max(score for _, score, *_ in chosen))
        return [ranked[4] for ranked in chosen]


def decayed(frequency: float, since_s: float) -> float:
    """A frequency after ``since_s`` seconds without use."""
    return frequency * 0.5 ** (since_s / HALF_LIFE_S) if since_s > 0.0 else frequency
