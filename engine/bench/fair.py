"""One tenant at ten times the rate of three others, more than can be served: fair sharing beside arrival order."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import mean

from engine.bench.figures import Figure, ratio
from engine.bench.simulated import MODEL, Ask, World
from engine.scheduler.budget import Limits

LIGHT = ("light-1", "light-2", "light-3")
HEAVY = "heavy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The traffic; the defaults ask for about twice what can be served."""

    seconds: float = 20.0
    light_rate: float = 15.0
    """Requests a second of each light tenant; the heavy one sends ten times as many."""
    prompt_tokens: int = 64
    new_tokens: int = 64
    seats: int = 32

    def asks(self, seed: int) -> list[Ask]:
        """Poisson arrivals."""
        draw = random.Random(seed)
        asks = []
        for tenant, rate in ((HEAVY, 10 * self.light_rate), *((name, self.light_rate) for name in LIGHT)):
            at_s = draw.expovariate(rate)
            while at_s < self.seconds:
                asks.append(Ask(at_s=at_s, tenant=tenant, prompt_tokens=self.prompt_tokens, new_tokens=self.new_tokens, adapter=tenant))
                at_s += draw.expovariate(rate)
        return asks

    def served(self, world: World, seed: int) -> World:
        """The same arrivals, to the same second."""
        world.run(self.asks(seed), until_s=self.seconds)
        return world

    def limits(self) -> Limits:
        """Seats are what is scarce."""
        return Limits(max_sequences=self.seats, max_step_tokens=1024, prefill_chunk=256, max_adapters=8, page_tokens=16, drain_after_s=2.0)


def fair(seed: int, crowd: Crowd | None = None) -> list[Figure]:
    """Mean time to first token of the light tenants' requests, and all tokens computed, in both orders."""
    crowd = crowd or Crowd()
    sizes = dict.fromkeys((HEAVY, *LIGHT), 4)
    num_pages = 4 * crowd.seats * -(-(crowd.prompt_tokens + crowd.new_tokens) // 16)
    shared, queued = (
        crowd.served(World(num_pages=num_pages, sizes=sizes, limits=crowd.limits(), fairness=fairness), seed)
        for fairness in ("vtc", "arrival")
    )
    light_s, light_queued_s = mean(shared.first_token_s(LIGHT)), mean(queued.first_token_s(LIGHT))
    heavy_s, heavy_queued_s = mean(shared.first_token_s([HEAVY])), mean(queued.first_token_s([HEAVY]))
    return [
        Figure(key="light_ttft_ms", label="light tenants' mean TTFT, fair", value=light_s * 1e3, unit="ms", how="simulated"),
        Figure(
            key="light_ttft_arrival_ms",
            label="light tenants' mean TTFT, by arrival",
            value=light_queued_s * 1e3,
            unit="ms",
            how="simulated",
        ),
        Figure(key="ratio", label="fair ÷ by arrival", value=ratio(light_s, light_queued_s), how="simulated"),
        Figure(key="heavy_ttft_ms", label="heavy tenant's mean TTFT, fair", value=heavy_s * 1e3, unit="ms", how="simulated"),
        Figure(
            key="heavy_ttft_arrival_ms",
            label="heavy tenant's mean TTFT, by arrival",
            value=heavy_queued_s * 1e3,
            unit="ms",
            how="simulated",
        ),
        Figure(key="tokens", label="tokens computed, fair", value=shared.num_tokens, how="simulated"),
        Figure(key="tokens_ratio", label="tokens, fair ÷ by arrival", value=ratio(shared.num_tokens, queued.num_tokens), how="simulated"),
        Figure(key="model", label="the clock", value=MODEL, how="simulated"),
    ]
