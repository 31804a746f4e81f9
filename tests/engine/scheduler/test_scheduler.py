"""What a step holds, and in which order."""

from __future__ import annotations

import pytest

from engine.ids import RequestId
from engine.plan import StepPlan
from tests.engine.scheduler.simulation import PAGE_TOKENS, STEP_S, Simulation, limits


def shape(plan: StepPlan) -> list[tuple[int, str, int, int]]:
    """(sequence, phase, start, tokens) a row."""
    return [(row.sequence.key, row.phase, row.start, row.num_tokens) for row in plan.rows]


def test_a_prompt_alone_runs_whole_then_decodes() -> None:
    """Nobody else decodes, so the chunk does not apply; the last prompt token samples."""
    sim = Simulation()
    sim.submit(20, max_tokens=3)
    assert shape(sim.step()) == [(0, "prefill", 0, 20)]
    assert shape(sim.step()) == [(0, "decode", 20, 1)]
    assert shape(sim.step()) == [(0, "decode", 21, 1)]
    assert sim.step().is_empty


def test_decoding_goes_on_beside_a_chunked_prompt() -> None:
    """A long prompt takes ``prefill_chunk`` tokens a step and never the decoders' turn."""
    sim = Simulation()
    sim.submit(4, max_tokens=6)
    sim.step()
    sim.submit(20, max_tokens=1)
    plans = [sim.step() for _ in range(3)]
    assert [shape(plan)[1] for plan in plans] == [(1, "prefill", 0, 8), (1, "prefill", 8, 8), (1, "prefill", 16, 4)]
    assert all(shape(plan)[0][:2] == (0, "decode") for plan in plans)
    assert [plan.rows[1].samples for plan in plans] == [False, False, True]


def test_a_step_keeps_its_budgets() -> None:
    """Tokens and sequences; who has no room waits with ``batch_full`` and the time is counted."""
    sim = Simulation(bounds=limits(max_sequences=2, max_step_tokens=24))
    first, second, third = (sim.submit(16, max_tokens=2)[0] for _ in range(3))
    assert shape(sim.step()) == [(0, "prefill", 0, 16), (1, "prefill", 0, 8)]
    assert (third.state, third.wait_reason) == ("waiting", "batch_full")
    sim.run()
    assert third.waits == {"batch_full": pytest.approx(2 * STEP_S)}
    assert [s.scheduled_s for s in (first, second, third)] == [0.0, 0.0, pytest.approx(2 * STEP_S)]


def test_rows_are_sorted_by_slot_with_the_base_last() -> None:
    """Decode rows, then prefill rows; rows of an adapter are neighbours in both."""
    sim = Simulation(sizes={"a": 2, "b": 2})
    for adapter in ("b", None, "a", "b", None, "a"):
        sim.submit(4, max_tokens=4, adapter=adapter)
    sim.step()
    sim.step()
    for adapter in (None, "a"):
        sim.submit(4, max_tokens=4, adapter=adapter)
    sim.step()
    plan = sim.step()
    order = [(row.phase, row.sequence.adapter) for row in plan.rows]
    slots = {"a": sim.gate.slot("a"), "b": sim.gate.slot("b"), None: 99}
    assert order == sorted(order, key=lambda row: (row[0], slots[row[1]]))
    assert {adapter for _, adapter in order} == {"a", "b", None}


def test_arrival_order_decides() -> None:
    """Where it is chosen: with one place in the batch, requests of any tenant run as they came."""
    sim = Simulation(bounds=limits(max_sequences=1), fairness="arrival")
    for tenant in ("t", "u", "t", "u", "v"):
        sim.submit(3, max_tokens=2, tenant=tenant)
    sim.run()
    assert list(sim.finished) == [0, 1, 2, 3, 4]


def test_a_repeated_prompt_is_not_computed_again() -> None:
    """The second run of a prompt starts behind its full pages, and says how many tokens were cached."""
    sim = Simulation()
    prompt = list(range(18))
    (first,) = sim.submit(prompt)
    sim.run()
    (second,) = sim.submit(prompt)
    assert shape(sim.step()) == [(1, "prefill", 16, 2)]
    assert (first.num_cached, second.num_cached) == (0, 16)
    sim.run()


def test_choices_share_their_prompt() -> None:
    """The prompt of ``n`` choices is computed once; the others wait for it and read its pages."""
    sim = Simulation()
    sequences = sim.submit(18, max_tokens=3, n=3)
    assert shape(sim.step()) == [(0, "prefill", 0, 18)]
    plan = sim.step()
    assert sorted(shape(plan)) == [(0, "decode", 18, 1), (1, "prefill", 16, 2), (2, "prefill", 16, 2)]
    assert sequences[1].pages[:4] == sequences[0].pages[:4]
    sim.run()
    assert set(sim.finished) == {0, 1, 2}
    assert sequences[1].waits == {"batch_full": pytest.approx(STEP_S)}


def test_a_step_fault_releases_the_choices_behind_it() -> None:
    """When the first choice ends early the others start on their own."""
    sim = Simulation(bounds=limits(max_step_tokens=8))
    first, *_ = sim.submit(18, max_tokens=2, n=3)
    sim.step()
    sim.scheduler.finish(first, "error", sim.clock.now_s())
    sim.run()
    assert set(sim.finished) == {1, 2}


def test_cancel_gives_everything_back_at_once() -> None:
    """B28: running, waiting and held choices end; no page, lease or place is left, and others go on."""
    sim = Simulation(sizes={"a": 3, "b": 3}, bounds=limits(max_sequences=3))
    sim.submit(10, max_tokens=50, adapter="a", n=2)
    sim.submit(10, max_tokens=50, adapter="b")
    sim.submit(10, max_tokens=50)
    for _ in range(4):
        sim.step()
    (other,) = sim.submit(6, max_tokens=5)
    for name in ("r0", "r2", "r3"):
        ended = sim.scheduler.cancel(RequestId(name), sim.clock.now_s())
        assert ended
        assert all(s.state == "finished" and s.cancelled and not s.pages for s in ended)
        sim.check()
        assert sim.scheduler.cancel(RequestId(name), sim.clock.now_s()) == []
    assert not sim.gate.leases
    assert sim.pool.count("kv") + sim.pool.num_shared == 0
    sim.run()
    assert other.num_output == 5


def test_a_cancel_between_plan_and_settle_is_skipped() -> None:
    """Its row's token is dropped; the neighbours' are not."""
    sim = Simulation()
    (gone,) = sim.submit(4, max_tokens=1)
    (other,) = sim.submit(4, max_tokens=1)
    plan = sim.scheduler.plan(0.0)
    sim.scheduler.cancel(RequestId("r0"), 0.0)
    assert sim.settle(plan) == [other]
    assert (gone.num_output, other.num_output) == (0, 1)
    sim.check()


def test_what_can_never_fit_is_told_up_front() -> None:
    """B20: pages that KV may never have do not count; the largest adapter and pins are among them."""
    sim = Simulation(num_pages=40, sizes={"a": 10, "b": 12})
    assert sim.scheduler.can_ever_fit((40 - 12) * PAGE_TOKENS)
    assert not sim.scheduler.can_ever_fit((40 - 12) * PAGE_TOKENS + 1)
    sim.gate.pinned.add("b")
    assert sim.scheduler.can_ever_fit((40 - 22) * PAGE_TOKENS)
    assert not sim.scheduler.can_ever_fit((40 - 22) * PAGE_TOKENS + 1)


def test_an_empty_plan_costs_no_step_number() -> None:
    """Steps count forward passes."""
    sim = Simulation()
    assert sim.step().is_empty
    sim.submit(3, max_tokens=1)
    assert sim.step().step == 1


def test_waits_can_be_read_while_they_last() -> None:
    """``flush`` brings the seconds up to now, once."""
    sim = Simulation(bounds=limits(max_sequences=1))
    sim.submit(3, max_tokens=50)
    (waiting,) = sim.submit(3)
    sim.step()
    sim.step()
    sim.scheduler.waiting.flush(sim.clock.now_s())
    sim.scheduler.waiting.flush(sim.clock.now_s())
    assert waiting.waits == {"batch_full": pytest.approx(2 * STEP_S)}
