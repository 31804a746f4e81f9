"""A request whose adapter is not on the device waits alone."""

from __future__ import annotations

import pytest

from tests.engine.scheduler.simulation import STEP_S, Simulation, limits


def test_b08_a_load_blocks_nobody() -> None:
    """B08: a slow load starts at once; streams of others get a token every step; its request enters the step it arrives."""
    sim = Simulation(sizes={"a": 3, "b": 3}, load_s=10 * STEP_S)
    sim.submit(4, max_tokens=60, adapter="a")
    while not sim.scheduler.running:
        sim.step()
    (slow,) = sim.submit(4, max_tokens=2, adapter="b")
    (quick,) = sim.submit(4, max_tokens=2)
    started_s = sim.clock.now_s()
    while slow.scheduled_s is None:
        plan = sim.step()
        assert any(row.sequence.key == 0 and row.samples for row in plan.rows)
        if slow.state == "waiting":
            assert slow.wait_reason == "adapter_loading"
    assert quick.state == "finished"
    assert slow.scheduled_s - started_s == pytest.approx(10 * STEP_S)
    assert slow.waits == {"adapter_loading": pytest.approx(10 * STEP_S)}


def test_b08_sixteen_adapters_rotate_through_eight_places() -> None:
    """B08, B19: a working set twice the places is served in turn, whatever fits; every request finishes."""
    names = [f"a{i}" for i in range(16)]
    sim = Simulation(num_pages=64, sizes=dict.fromkeys(names, 5), load_s=3 * STEP_S, bounds=limits(max_adapters=8, max_sequences=16))
    for _ in range(3):
        for name in names:
            sim.submit(5, max_tokens=6, adapter=name)
    steps = sim.run(max_steps=600)
    assert len(sim.finished) == 48
    assert steps < 300


def test_loads_look_ahead_only_as_far_as_can_run() -> None:
    """A long queue of distinct adapters does not push out what the ones before it wait for."""
    names = [f"a{i}" for i in range(30)]
    sim = Simulation(num_pages=64, sizes=dict.fromkeys(names, 4), load_s=5 * STEP_S)
    for name in names:
        sim.submit(4, max_tokens=3, adapter=name)
    sim.step()
    assert [s.wait_reason for s in sim.scheduler.waiting] == ["adapter_loading"] * 2 + ["batch_full"] * 28
    sim.run()
    assert len(sim.gate.evicted) == len(set(sim.gate.evicted))


def test_loads_do_not_evict_one_another() -> None:
    """Places for all and pages for three: those behind wait with ``adapter_pages`` and each is loaded once."""
    names = [f"a{i}" for i in range(12)]
    sim = Simulation(num_pages=30, sizes=dict.fromkeys(names, 7), load_s=3 * STEP_S, bounds=limits(max_adapters=12, drain_after_s=100.0))
    for name in names:
        sim.submit(4, max_tokens=3, adapter=name)
    sim.step()
    assert [s.wait_reason for s in sim.scheduler.waiting] == ["adapter_loading"] * 3 + ["adapter_pages"] * 9
    sim.run()
    assert len(sim.gate.evicted) == len(set(sim.gate.evicted)) == 9


def test_b19_pinned_adapters_survive_pressure() -> None:
    """B19: two pins and a floating place; ten others rotate through it and the pinned ones are never evicted."""
    others = [f"a{i}" for i in range(10)]
    sim = Simulation(num_pages=40, sizes=dict.fromkeys([*others, "p", "q"], 6), load_s=STEP_S, bounds=limits(max_adapters=3))
    sim.gate.pinned |= {"p", "q"}
    for name in ("p", "q", *others, "p", "q"):
        sim.submit(5, max_tokens=5, adapter=name)
    sim.run()
    assert len(sim.finished) == 14
    assert not {"p", "q"} & set(sim.gate.evicted)


def test_b20_thirty_long_requests_over_twelve_adapters() -> None:
    """B20: with 40 pages for all of it, nothing is lost, leaked or stuck."""
    names = [f"a{i}" for i in range(12)]
    sim = Simulation(num_pages=40, sizes=dict.fromkeys(names, 3), load_s=2 * STEP_S, bounds=limits(max_adapters=4))
    for i in range(30):
        sim.submit(40 + i, max_tokens=30, adapter=names[i % 12])
    sim.run(max_steps=4000)
    assert len(sim.finished) == 30
    assert all(s.num_output == 30 for s in sim.finished.values())


def test_a_load_does_not_take_what_an_old_request_waits_for() -> None:
    """Pages that come free go to the oldest, not to a stream of loads behind it."""
    names = [f"a{i}" for i in range(12)]
    sim = Simulation(
        num_pages=30, sizes=dict.fromkeys(names, 7), load_s=3 * STEP_S, bounds=limits(max_adapters=12, drain_after_s=5 * STEP_S)
    )
    sim.submit(4, max_tokens=10, adapter="a0")
    for _ in range(6):
        sim.step()
    (large,) = sim.submit(85, max_tokens=2)
    for turn in range(200):
        sim.submit(4, max_tokens=3, adapter=names[turn % 12])
        sim.step()
        if large.scheduled_s is not None:
            return
    pytest.fail("the large prompt never ran")
