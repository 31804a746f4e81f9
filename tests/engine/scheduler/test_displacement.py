"""Who displaced whom, told by the same scheduler, residency and pages that serve."""

from __future__ import annotations

import pytest

from engine.adapters.entry import AdapterEntry
from engine.adapters.listener import LeftBecause, ResidencyListener
from engine.bench.simulated import Ask, World
from engine.ids import TenantId
from engine.memory.reclaim import Floors
from engine.scheduler.budget import Limits
from tests.engine.scheduler.simulation import STEP_S, Simulation, limits

STEP_MS = STEP_S * 1e3
A, B = TenantId("a"), TenantId("b")


class Departures(ResidencyListener):
    """Who left the device, and for whom."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []

    def left_device(self, entry: AdapterEntry, because: LeftBecause) -> None:
        """Note it."""
        assert because == "pages_needed"
        self.seen.append((entry.record.id, entry.displaced_by))


def small_world() -> tuple[World, Departures]:
    """Room for one adapter of four pages beside KV."""
    bounds = Limits(max_sequences=4, max_step_tokens=64, prefill_chunk=32, max_adapters=2, page_tokens=16, drain_after_s=1.0)
    world = World(num_pages=12, sizes={"of-a": 4, "of-b": 4}, limits=bounds, floors=Floors(kv=8, adapter=4))
    world.residency.listener = departures = Departures()
    return world, departures


def test_a_load_says_whose_request_took_the_pages() -> None:
    """a, then b, then a again on pages for one: each load evicts the other's adapter, and only a's second request waited for that."""
    world, departures = small_world()
    stalls = []
    for at_s, tenant in ((0.0, "a"), (1.0, "b"), (2.0, "a")):
        world.clock.seconds = at_s
        world.submit(Ask(at_s=at_s, tenant=tenant, prompt_tokens=4, new_tokens=2, adapter=f"of-{tenant}"))
        while len(world.scheduler.waiting) or len(world.scheduler.running):
            world.bring()
            plan = world.scheduler.plan(world.clock.seconds)
            stalls += [(stall.by, stall.sequence.tenant, stall.waited_s) for stall in plan.stalled]
            world.clock.seconds += 0.001
            world.settle(plan)
    assert departures.seen == [("of-a", B), ("of-b", A)]
    assert stalls == [(B, A, pytest.approx(0.002))]


def test_what_nobody_asked_for_is_nobodys() -> None:
    """An operator's load evicts for no tenant, and who waits afterwards waits for nobody's sake."""
    world, departures = small_world()
    world.residency.want(next(iter(world.residency.entries)), 0.0)
    world.clock.seconds = 1.0
    world.bring()
    world.residency.want(list(world.residency.entries)[1], 1.0)
    assert departures.seen == [("of-a", None)]


def test_a_preemption_says_who_needed_the_pages() -> None:
    """The older sequence of a takes the page of b's; when b's goes on it says for whom it waited, and how long."""
    sim = Simulation(num_pages=16, floors=Floors(kv=6, adapter=8), bounds=limits(max_sequences=2))
    sim.submit(12, max_tokens=16, tenant="a")
    (late,) = sim.submit(12, max_tokens=8, tenant="b")
    preempted, stalled, gone_at_s = [], [], 0.0
    while sim.busy:
        now_s = sim.clock.now_s()
        plan = sim.step()
        preempted += [(each.by.tenant, each.sequence.tenant) for each in plan.preempted]
        gone_at_s = now_s if plan.preempted else gone_at_s
        stalled += [(each.by, each.sequence.tenant, each.waited_s - (now_s - gone_at_s)) for each in plan.stalled]
    assert preempted == [(A, B)]
    assert stalled == [(A, B, pytest.approx(0.0))]
    assert late.preemptions == 1
