"""B07: every adapter comes in within a bound, under a stream for others that never ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sequence import Sequence
from tests.engine.scheduler.simulation import STEP_S, Simulation, limits

DRAIN_AFTER_S = 20 * STEP_S


class HotStream:
    """Keeps so many requests for one adapter in flight, which end at different steps."""

    def __init__(self, sim: Simulation, adapter: str | None, *, in_flight: int, max_tokens: int = 10) -> None:
        self.sim = sim
        self.adapter = adapter
        self.in_flight = in_flight
        self.max_tokens = max_tokens
        self.sequences: list[Sequence] = []

    def refill(self) -> None:
        """Replace those that ended."""
        while sum(s.state != "finished" for s in self.sequences) < self.in_flight:
            max_tokens = self.max_tokens + 3 * (len(self.sequences) % self.in_flight)
            self.sequences += self.sim.submit(4, max_tokens=max_tokens, adapter=self.adapter)

    def step(self) -> None:
        """Refill, then step."""
        self.refill()
        self.sim.step()


def one_place(**changed: float) -> Simulation:
    """One adapter at a time."""
    bounds = limits(max_adapters=1, drain_after_s=DRAIN_AFTER_S, **changed)
    return Simulation(sizes={"hot": 4, "cold": 4}, load_s=2 * STEP_S, bounds=bounds)


def test_b07_a_cold_adapter_comes_in_within_a_bound() -> None:
    """One place, four requests of the hot one always in flight: the wait is the threshold, one request's rest, and the load."""
    sim = one_place()
    hot = HotStream(sim, "hot", in_flight=4)
    for _ in range(30):
        hot.step()
    (cold,) = sim.submit(4, max_tokens=2, adapter="cold")
    asked_s = sim.clock.now_s()
    while cold.first_token_s is None:
        hot.step()
        assert sim.clock.now_s() - asked_s < DRAIN_AFTER_S + 25 * STEP_S
    assert set(cold.waits) <= {"batch_full", "adapter_loading"}
    assert any("draining" in s.waits for s in hot.sequences)


def test_the_hot_adapter_keeps_most_of_its_throughput() -> None:
    """With a cold request now and then, the hot stream yields more than 60 % of what it yields alone."""
    yielded = []
    for with_cold in (False, True):
        sim = one_place()
        hot = HotStream(sim, "hot", in_flight=4)
        for step in range(400):
            if with_cold and step % 100 == 50:
                sim.submit(4, max_tokens=4, adapter="cold")
            hot.step()
        yielded.append(sim.tokens_run("hot"))
        if with_cold:
            assert sim.tokens_run("cold") == 4 * 4
    assert yielded[1] > 0.6 * yielded[0]


def test_the_base_is_never_held_back() -> None:
    """While the hot adapter drains, base requests enter as they come."""
    sim = one_place()
    hot = HotStream(sim, "hot", in_flight=4)
    for _ in range(5):
        hot.step()
    sim.submit(4, max_tokens=2, adapter="cold")
    base: list[Sequence] = []
    drained = 0
    for _ in range(80):
        base += sim.submit(2, max_tokens=1)
        hot.step()
        drained += bool(sim.scheduler.drain.draining)
        assert base[-1].state == "finished"
    assert drained


def test_two_hot_adapters_alternate() -> None:
    """Streams for three adapters on one place: each gets its turn, again and again."""
    sim = Simulation(sizes={"a": 4, "b": 4, "c": 4}, bounds=limits(max_adapters=1, drain_after_s=DRAIN_AFTER_S))
    streams = [HotStream(sim, name, in_flight=3, max_tokens=5) for name in ("a", "b", "c")]
    for _ in range(400):
        for stream in streams:
            stream.refill()
        sim.step()
    assert all(sim.tokens_run(name) > 100 for name in ("a", "b", "c"))


@pytest.mark.parametrize("pin_hot", [False, True])
def test_a_large_adapter_gets_its_pages(pin_hot: bool) -> None:  # noqa: FBT001  (a test's parameter)
    """Small adapters stream through all pages: enough of them drain for the large one; a pinned one goes on."""
    small = [f"s{i}" for i in range(4)]
    sim = Simulation(
        num_pages=150,
        sizes=dict.fromkeys(small, 18) | {"large": 84},
        load_s=2 * STEP_S,
        bounds=limits(max_adapters=8, max_sequences=24, drain_after_s=DRAIN_AFTER_S),
    )
    if pin_hot:
        sim.gate.pinned.add("s0")
    streams = [HotStream(sim, name, in_flight=3, max_tokens=5 + i) for i, name in enumerate(small)]
    base = HotStream(sim, None, in_flight=1, max_tokens=8)
    late: Sequence | None = None
    for step in range(300):
        for stream in (*streams, base):
            stream.refill()
        if step == 40:
            (late,) = sim.submit(4, max_tokens=2, adapter="large")
            asked_s = sim.clock.now_s()
        sim.step()
        if pin_hot:
            assert "s0" not in sim.scheduler.drain.draining
        if late is not None and late.first_token_s is not None:
            assert late.first_token_s - asked_s < DRAIN_AFTER_S + 50 * STEP_S
            return
    pytest.fail("the large adapter never came in")


def test_a_drain_ends_with_the_request_it_was_for() -> None:
    """The waiter's client leaves: the others are let in at once and no lease is left over."""
    sim = one_place()
    hot = HotStream(sim, "hot", in_flight=4, max_tokens=40)
    for _ in range(10):
        hot.step()
    (cold,) = sim.submit(4, max_tokens=2, adapter="cold")
    while sim.scheduler.drain.waiter is None:
        hot.step()
    sim.scheduler.cancel(cold.request.id, sim.clock.now_s())
    assert sim.scheduler.drain.waiter is None
    assert not sim.scheduler.drain.draining
    sim.run()
    assert not sim.gate.leases


@settings(max_examples=40, deadline=None)
@given(
    hot_tokens=st.integers(2, 20),
    in_flight=st.integers(1, 5),
    load_steps=st.integers(0, 6),
    places=st.integers(1, 2),
    rare=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["r1", "r2", "r3"])), min_size=1, max_size=6),
)
def test_the_bound(hot_tokens: int, in_flight: int, load_steps: int, places: int, rare: list[tuple[int, str]]) -> None:
    """What ``Drain`` promises, with hot streams for each place: threshold + 2 · (n + 1) · (R + L), with n adapters that waited longer."""
    bounds = limits(max_adapters=places, max_sequences=16, drain_after_s=DRAIN_AFTER_S)
    names = [f"hot-{place}" for place in range(places)]
    sizes = dict.fromkeys((*names, "r1", "r2", "r3"), 4)
    sim = Simulation(num_pages=160, sizes=sizes, load_s=load_steps * STEP_S, bounds=bounds)
    hot = [HotStream(sim, name, in_flight=in_flight, max_tokens=hot_tokens) for name in names]
    rest_s = (hot_tokens + 3 * in_flight + 2) * STEP_S
    load_s = (load_steps + 2) * STEP_S
    asked: list[tuple[Sequence, float, int]] = []
    for step in range(1200):
        for stream in hot:
            stream.refill()
        for at, name in rare:
            if at == step:
                before = {s.adapter for s, _, _ in asked if s.scheduled_s is None} - {name}
                asked.append((*sim.submit(4, max_tokens=2, adapter=name, tenant=name), sim.clock.now_s(), len(before)))
        sim.step()
        if len(asked) == len(rare) and all(s.scheduled_s is not None for s, _, _ in asked):
            break
    for sequence, asked_s, longer in asked:
        assert sequence.scheduled_s is not None
        assert sequence.scheduled_s - asked_s <= DRAIN_AFTER_S + 2 * (longer + 1) * (rest_s + load_s)
