"""Whatever is asked in whatever order, nothing leaks and everything ends."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine.ids import AdapterId, RequestId
from engine.memory.reclaim import Floors
from engine.scheduler.fairness import Fairness
from tests.engine.scheduler.simulation import STEP_S, Simulation, limits

ADAPTERS = {"a": 2, "b": 3, "c": 5, "d": 8}
KV_FLOOR = 6
FAIRNESS: st.SearchStrategy[Fairness] = st.sampled_from(["vtc", "vtc", "arrival"])


class SchedulerMachine(RuleBasedStateMachine):
    """Requests, cancels, pins and steps at random; ``Simulation.check`` runs after each."""

    @initialize(
        num_pages=st.integers(24, 40), load_steps=st.integers(0, 6), places=st.integers(1, 3), seats=st.integers(1, 6), fairness=FAIRNESS
    )
    def start(self, num_pages: int, load_steps: int, places: int, seats: int, fairness: Fairness) -> None:
        """Small enough that everything runs out."""
        self.sim = Simulation(
            num_pages=num_pages,
            sizes=ADAPTERS,
            load_s=load_steps * STEP_S,
            floors=Floors(kv=KV_FLOOR, adapter=4),
            bounds=limits(max_adapters=places, max_sequences=seats, drain_after_s=8 * STEP_S),
            fairness=fairness,
        )
        self.asked: set[str] = set()
        self.cancelled: set[str] = set()

    @rule(
        prompt=st.integers(1, 24),
        repeats=st.booleans(),
        max_tokens=st.integers(1, 12),
        adapter=st.sampled_from([None, *ADAPTERS]),
        tenant=st.sampled_from(["t", "u", "v"]),
        key=st.sampled_from([None, "k", "l"]),
        priority=st.sampled_from([0, 0, -1]),
        n=st.sampled_from([1, 1, 1, 3]),
    )
    def submit(self, *, prompt: int, repeats: bool, max_tokens: int, adapter: str | None, n: int, **asked: Any) -> None:
        """Some prompts start alike; what can never fit is not queued."""
        if self.sim.scheduler.can_ever_fit(prompt + max_tokens):
            tokens: int | list[int] = [1] * prompt if repeats else prompt
            sequences = self.sim.submit(tokens, max_tokens=max_tokens, adapter=adapter, n=n, **asked)
            self.asked.add(sequences[0].request.id)
        self.sim.check()

    @rule(
        tenant=st.sampled_from(["t", "u"]),
        max_running=st.sampled_from([None, 1, 2]),
        max_kv_pages=st.sampled_from([None, 12, 20]),
        max_adapter_pages=st.sampled_from([None, 8, 10]),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
    )
    def allow(self, *, tenant: str, **allowed: float) -> None:
        """Limits change at any moment; each leaves room for any one request."""
        self.sim.allow(tenant, **allowed)

    @precondition(lambda self: self.asked - self.cancelled)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A client leaves, at any moment."""
        name = data.draw(st.sampled_from(sorted(self.asked - self.cancelled)))
        self.cancelled.add(name)
        self.sim.scheduler.cancel(RequestId(name), self.sim.clock.now_s())
        self.sim.check()

    @rule(adapter=st.sampled_from(list(ADAPTERS)))
    def pin(self, adapter: str) -> None:
        """Pinned while it leaves the largest other adapter and the KV floor; unpinned the next time."""
        gate = self.sim.gate
        if adapter in gate.pinned:
            gate.pinned.remove(AdapterId(adapter))
            return
        gate.pinned.add(AdapterId(adapter))
        if gate.reserve() + KV_FLOOR > self.sim.pool.num_pages:
            gate.pinned.remove(AdapterId(adapter))

    @rule(steps=st.integers(1, 8))
    def step(self, steps: int) -> None:
        """Some steps."""
        for _ in range(steps):
            self.sim.step()

    def teardown(self) -> None:
        """Everything ends, every page and lease comes back, and seconds waited are those that passed."""
        if not hasattr(self, "sim"):
            return
        sim = self.sim
        sim.run(max_steps=3000)
        assert not sim.gate.leases
        assert sim.scheduler.drain.waiter is None
        assert sim.pool.count("kv") == sim.pool.num_shared == 0
        sim.prefix.evict(sim.pool.num_pages)
        assert sim.pool.count("prefix") == 0
        for sequence in sim.finished.values():
            waited_s = sequence.scheduled_s - sequence.arrived_s
            assert sequence.preemptions or abs(sum(sequence.waits.values()) - waited_s) < STEP_S / 10
            assert sequence.num_output == sequence.request.sampling.max_tokens


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def script(seed: int) -> list[object]:
    """Every plan of a made-up hour, as plain values."""
    chance = random.Random(seed)
    sim = Simulation(num_pages=36, sizes=ADAPTERS, load_s=3 * STEP_S)
    for _ in range(60):
        if chance.random() < 0.6:
            sim.submit(chance.randint(1, 20), max_tokens=chance.randint(1, 10), adapter=chance.choice([None, *ADAPTERS]))
        sim.step()
    sim.run()
    return [[(row.sequence.key, row.phase, row.start, row.num_tokens) for row in plan.rows] for plan in sim.plans]


def test_the_same_calls_give_the_same_plans() -> None:
    """Decisions can be replayed."""
    assert script(7) == script(7)
    assert script(7) != script(8)
