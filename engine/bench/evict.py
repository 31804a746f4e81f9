"""Which share of requests finds its adapter on the device: page images with GDSF beside whole slots with LRU, in the same bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.bench.figures import Figure, ratio
from engine.bench.simulated import World
from engine.ids import AdapterId
from engine.scheduler.budget import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

RANKS, SHARES = (8, 16, 32, 64), (0.50, 0.30, 0.15, 0.05)
RANKS_A_PAGE = 8
SLOT_PAGES = max(RANKS) // RANKS_A_PAGE
LONG_S = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Popularity:
    """The traffic: the k-th adapter is asked for 1 / k ** zipf as often as the first."""

    adapters: int = 1000
    slots: int = 16
    """Of the largest rank: what both ways have to put adapters in."""
    requests: int = 30_000
    warm_up: int = 10_000
    """Requests before the count begins."""
    zipf: float = 1.0
    requests_per_s: float = 10.0

    def names(self) -> list[str]:
        """Most popular first."""
        return [f"adapter-{number}" for number in range(self.adapters)]

    def trace(self, seed: int) -> list[str]:
        """Who is asked for, one a request."""
        draw = random.Random(seed)
        weights = list(accumulate(1 / (place + 1) ** self.zipf for place in range(self.adapters)))
        return draw.choices(self.names(), cum_weights=weights, k=self.requests)

    def sizes(self, seed: int) -> dict[str, int]:
        """Pages of each adapter by its own rank."""
        draw = random.Random(seed)
        return {name: draw.choices(RANKS, SHARES)[0] // RANKS_A_PAGE for name in self.names()}

    def hit_rate(self, seed: int, sizes: Mapping[str, int], eviction: Literal["gdsf", "lru"]) -> float:
        """Share of requests that found their adapter on the device; one that did not is brought there."""
        limits = Limits(max_sequences=1, max_step_tokens=64, prefill_chunk=64, max_adapters=1, page_tokens=16, drain_after_s=LONG_S)
        world = World(num_pages=self.slots * SLOT_PAGES, sizes=sizes, limits=limits, eviction=eviction)
        hits = 0
        for number, name in enumerate(self.trace(seed)):
            hits += use(world, AdapterId(name)) and number >= self.warm_up
            world.clock.seconds += 1 / self.requests_per_s
        return hits / (self.requests - self.warm_up)


def use(world: World, adapter: AdapterId) -> bool:
    """Run one request with it, alone; whether it was there."""
    found = world.residency.state(adapter) == "device"
    if not found:
        world.residency.want(adapter, world.clock.seconds)
        world.clock.seconds += SLOT_PAGES / 1e3
        world.bring()
    world.residency.lease(adapter)
    world.residency.release(adapter)
    return found


def evict(seed: int, popularity: Popularity | None = None) -> list[Figure]:
    """Both ways over one trace."""
    popularity = popularity or Popularity()
    sizes = popularity.sizes(seed)
    pages = popularity.hit_rate(seed, sizes, "gdsf")
    pages_lru = popularity.hit_rate(seed, sizes, "lru")
    slots = popularity.hit_rate(seed, dict.fromkeys(sizes, SLOT_PAGES), "lru")
    return [
        Figure(key="adapters", label="adapters, Zipf 1.0, ranks 8/16/32/64 at 50/30/15/5 %", value=popularity.adapters, how="simulated"),
        Figure(key="slots", label="memory, slots of the largest rank", value=popularity.slots, how="simulated"),
        Figure(key="pages_gdsf_hit_rate", label="hit rate, pages and GDSF", value=pages, how="simulated"),
        Figure(key="pages_lru_hit_rate", label="hit rate, pages and LRU", value=pages_lru, how="simulated"),
        Figure(key="slots_lru_hit_rate", label="hit rate, whole slots and LRU", value=slots, how="simulated"),
        Figure(key="ratio", label="pages and GDSF ÷ whole slots and LRU", value=ratio(pages, slots), how="simulated"),
    ]
