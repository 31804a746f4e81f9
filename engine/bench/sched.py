"""What planning a step and taking in what it gave cost, with 256 sequences running and 1,000 waiting. Real time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from statistics import median

from engine.bench.figures import Figure
from engine.bench.simulated import Ask, World
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits

STEP_S = 0.02
PAGES_EACH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What is kept running and waiting, and how long one looks."""

    seats: int = 256
    waiting: int = 1000
    settle: int = 40
    steps: int = 120

    def step_ms(self, *, tenants: int, adapters: int) -> list[float]:
        """Milliseconds of each step, in order of size; requests that end are replaced."""
        draw = random.Random(1)
        limits = Limits(
            max_sequences=self.seats, max_step_tokens=1024, prefill_chunk=256, max_adapters=64, page_tokens=16, drain_after_s=2.0
        )
        sizes = {f"adapter-{number}": PAGES_EACH for number in range(adapters)}
        world = World(num_pages=16 * self.seats, sizes=sizes, limits=limits, floors=Floors(kv=8 * self.seats, adapter=64 * PAGES_EACH))
        costs = []
        for step in range(self.settle + self.steps):
            while len(world.scheduler.waiting) < self.waiting + (self.seats if step == 0 else 0):
                adapter = f"adapter-{draw.randrange(adapters)}" if adapters else None
                tenant = f"tenant-{draw.randrange(tenants)}"
                prompt, output = draw.randint(16, 64), draw.randint(20, 120)
                world.submit(Ask(at_s=world.clock.seconds, tenant=tenant, prompt_tokens=prompt, new_tokens=output, adapter=adapter))
            world.bring()
            began_s = time.perf_counter()
            plan = world.scheduler.plan(world.clock.seconds)
            planned_s = time.perf_counter() - began_s
            world.clock.seconds += STEP_S
            settled_s = world.settle(plan)
            if step >= self.settle:
                costs.append((planned_s + settled_s) * 1e3)
        return sorted(costs)


def sched(seed: int, queue: Queue | None = None) -> list[Figure]:
    """The median step for one tenant without adapters, for adapters and for tenants that are all distinct."""
    del seed
    queue = queue or Queue()
    figures = []
    for key, label, tenants, adapters in (
        ("plain", "one tenant, no adapter", 1, 0),
        ("adapters", "one tenant, 1,000 adapters", 1, 1000),
        ("tenants", "1,000 tenants, 1,000 adapters", 1000, 1000),
    ):
        costs = queue.step_ms(tenants=tenants, adapters=adapters)
        figures.append(Figure(key=f"{key}.step_ms", label=label, value=median(costs), unit="ms", spread=(costs[0], costs[-1])))
    return figures
