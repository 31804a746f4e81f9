"""What loads, the plan and taking in what it gave cost a step, with 256 sequences running and 1,000 waiting. Real time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from statistics import median

from engine.bench.figures import Figure
from engine.bench.simulated import Ask, World
from engine.bench.starve import p95
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits

STEP_S = 0.02
PAGES_EACH = 4
LOOPS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What is kept running and waiting, and how long one looks."""

    seats: int = 256
    waiting: int = 1000
    settle: int = 40
    steps: int = 120

    def step_ms(self, *, tenants: int, adapters: int) -> tuple[list[float], list[int]]:
        """Milliseconds of each step, in order of size, and how many ran in each; requests that end are replaced.

        As many adapters run as there are seats, so that all seats are taken even where every request has an adapter of its own.
        """
        draw = random.Random(1)
        limits = Limits(
            max_sequences=self.seats, max_step_tokens=1024, prefill_chunk=256, max_adapters=self.seats, page_tokens=16, drain_after_s=2.0
        )
        sizes = {f"adapter-{number}": PAGES_EACH for number in range(adapters)}
        adapter_pages = self.seats * PAGES_EACH if adapters else 0
        floors = Floors(kv=16 * self.seats, adapter=adapter_pages)
        world = World(num_pages=16 * self.seats + adapter_pages, sizes=sizes, limits=limits, floors=floors)
        costs, running = [], []
        for step in range(self.settle + self.steps):
            while len(world.scheduler.waiting) < self.waiting + (self.seats if step == 0 else 0):
                chosen = draw.randrange(adapters or tenants)
                adapter = f"adapter-{chosen}" if adapters else None
                tenant = f"tenant-{chosen % tenants}"
                prompt, output = draw.randint(16, 64), draw.randint(20, 120)
                world.submit(Ask(at_s=world.clock.seconds, tenant=tenant, prompt_tokens=prompt, new_tokens=output, adapter=adapter))
            brought_s = world.bring()
            began_s = time.perf_counter()
            plan = world.scheduler.plan(world.clock.seconds)
            planned_s = time.perf_counter() - began_s
            world.clock.seconds += STEP_S
            settled_s = world.settle(plan)
            if step >= self.settle:
                costs.append((brought_s + planned_s + settled_s) * 1e3)
                running.append(len(plan.rows))
        return sorted(costs), running


def sched(seed: int, queue: Queue | None = None) -> list[Figure]:
    """The median step and the 95th percentile, by how many tenants and adapters there are; and how fast this machine is at plain Python."""
    del seed
    queue = queue or Queue()
    figures = [Figure(key="loops_per_s", label="iterations of an empty loop, millions a second", value=loops_per_s() / 1e6)]
    for key, label, tenants, adapters in (
        ("plain", "one tenant, no adapter", 1, 0),
        ("four", "four tenants, no adapter", 4, 0),
        ("adapters", "20 tenants, 1,000 adapters", 20, 1000),
        ("tenants", "1,000 tenants, 1,000 adapters", 1000, 1000),
    ):
        costs, running = queue.step_ms(tenants=tenants, adapters=adapters)
        figures += [
            Figure(key=f"{key}.step_ms", label=label, value=median(costs), unit="ms", spread=(costs[0], costs[-1])),
            Figure(key=f"{key}.p95_ms", label=f"{label}, 95th percentile", value=p95(costs), unit="ms"),
            Figure(key=f"{key}.running", label=f"{label}, running", value=median(running)),
        ]
    return figures


def loops_per_s() -> float:
    """The best of a few tries, so that who else works at the moment counts little."""
    took_s = []
    for _ in range(5):
        began_s = time.perf_counter()
        for _ in range(LOOPS):
            pass
        took_s.append(time.perf_counter() - began_s)
    return LOOPS / min(took_s)
