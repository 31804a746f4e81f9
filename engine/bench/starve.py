"""Two hot and six rare adapters where two have a place: draining for a rare one beside passing it over."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine.bench.figures import Figure, ratio
from engine.bench.simulated import MODEL, Ask, World
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits

HOT = ("hot-1", "hot-2")
RARE = tuple(f"rare-{number}" for number in range(1, 7))
NEVER_S = 1e9
ADAPTER_PAGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The traffic."""

    seconds: float = 120.0
    hot_rate: float = 12.0
    """Requests a second of each hot adapter."""
    rare_rate: float = 0.05
    prompt_tokens: int = 64
    new_tokens: int = 100
    drain_after_s: float = 2.0

    def asks(self, seed: int) -> list[Ask]:
        """Poisson arrivals; every adapter is its own tenant's, named alike."""
        draw = random.Random(seed)
        asks = []
        for name, rate in (*((name, self.hot_rate) for name in HOT), *((name, self.rare_rate) for name in RARE)):
            at_s = draw.expovariate(rate)
            while at_s < self.seconds:
                asks.append(Ask(at_s=at_s, tenant=name, prompt_tokens=self.prompt_tokens, new_tokens=self.new_tokens, adapter=name))
                at_s += draw.expovariate(rate)
        return asks

    def served(self, seed: int, *, drain_after_s: float) -> World:
        """Two adapters run at once, and the pages of two are there for adapters."""
        limits = Limits(
            max_sequences=32, max_step_tokens=1024, prefill_chunk=256, max_adapters=2, page_tokens=16, drain_after_s=drain_after_s
        )
        kv_pages = 32 * -(-(self.prompt_tokens + self.new_tokens) // 16)
        world = World(num_pages=2 * ADAPTER_PAGES + kv_pages, sizes=dict.fromkeys((*HOT, *RARE), ADAPTER_PAGES), limits=limits)
        world.reclaimer.floors = Floors(kv=kv_pages, adapter=2 * ADAPTER_PAGES)
        world.run(self.asks(seed), until_s=self.seconds)
        return world


def starve(seed: int, places: Places | None = None) -> list[Figure]:
    """The rare adapters' 95th percentile of the time to first token, and all tokens computed, with and without draining."""
    places = places or Places()
    drained, skipped = (places.served(seed, drain_after_s=after_s) for after_s in (places.drain_after_s, NEVER_S))
    rare_s, rare_skipped_s = p95(drained.first_token_s(RARE)), p95(skipped.first_token_s(RARE))
    hot_s, hot_skipped_s = p95(drained.first_token_s(HOT)), p95(skipped.first_token_s(HOT))
    return [
        Figure(key="rare_p95_ttft_s", label="rare adapters' p95 TTFT, with draining", value=rare_s, unit="s", how="simulated"),
        Figure(key="rare_p95_ttft_skip_s", label="rare adapters' p95 TTFT, passed over", value=rare_skipped_s, unit="s", how="simulated"),
        Figure(key="ratio", label="draining ÷ passing over", value=ratio(rare_s, rare_skipped_s), how="simulated"),
        Figure(key="hot_p95_ttft_s", label="hot adapters' p95 TTFT, with draining", value=hot_s, unit="s", how="simulated"),
        Figure(
            key="hot_p95_ttft_skip_s", label="hot adapters' p95 TTFT, rare ones passed over", value=hot_skipped_s, unit="s", how="simulated"
        ),
        Figure(key="tokens", label="tokens computed, with draining", value=drained.num_tokens, how="simulated"),
        Figure(
            key="tokens_ratio",
            label="tokens, draining ÷ passing over",
            value=ratio(drained.num_tokens, skipped.num_tokens),
            how="simulated",
        ),
        Figure(key="model", label="the clock", value=MODEL, how="simulated"),
    ]


def p95(values: list[float]) -> float:
    """The value that 95 % do not exceed (nearest rank)."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]
