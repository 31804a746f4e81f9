"""When pages run out the newest gives its own back, and nobody is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.memory.reclaim import Floors
from engine.scheduler.fairness import Fairness
from tests.engine.scheduler.simulation import Simulation, limits


def tight(num_pages: int, *, fairness: Fairness = "vtc", **changed: float) -> Simulation:
    """Pages are the only bound."""
    return Simulation(num_pages=num_pages, floors=Floors(kv=0, adapter=0), bounds=limits(**changed), fairness=fairness)


def test_the_newest_is_preempted_and_comes_back_first() -> None:
    """It waits with ``kv_pages`` before all that arrived later, and goes on where it was."""
    sim = tight(9)
    old, new = (sim.submit(12, max_tokens=16)[0] for _ in range(2))
    (late,) = sim.submit(12, max_tokens=16)
    preempted = [item for _ in range(40) for item in sim.step().preempted]
    assert [item.sequence for item in preempted][:1] == [new]
    assert new.preemptions >= 1
    assert old.preemptions == 0
    assert all(item.pages > 0 for item in preempted)
    sim.run()
    assert list(sim.finished) == [old.key, new.key, late.key]
    assert new.num_output == 16
    assert "kv_pages" in new.waits
    assert new.token_ids[12:] == [new.key] * 16


def test_recomputing_starts_behind_what_the_cache_kept() -> None:
    """A published prompt survives the preemption as idle pages, as long as nobody needs them; it does not count as cached."""
    sim = tight(10)
    old, new = (sim.submit(12, max_tokens=9)[0] for _ in range(2))
    sim.submit(40 - 12 - 12 - 8, max_tokens=1)
    for _ in range(4):
        sim.step()
    sim.scheduler.finish(old, "stop", sim.clock.now_s())
    sim.scheduler._requeue(new)
    assert sim.step().rows[0].start == 12
    assert (new.preemptions, new.num_cached) == (0, 0)


def test_a_page_is_left_for_those_that_run() -> None:
    """Admission does not fill the last page under running sequences, which would preempt at once."""
    sim = tight(12)
    for _ in range(3):
        sim.submit(12, max_tokens=8)
    sim.run()
    assert sum(s.preemptions for s in sim.finished.values()) <= 2


def test_nobody_overtakes_to_kv_pages() -> None:
    """A large prompt waits for pages; a small one behind it waits too, so that pages gather for the first."""
    sim = tight(10, fairness="arrival")
    sim.submit(20, max_tokens=10)
    (large,) = sim.submit(30, max_tokens=2)
    (small,) = sim.submit(2, max_tokens=2, tenant="u")
    sim.step()
    assert (large.wait_reason, small.wait_reason) == ("kv_pages", "kv_pages")
    sim.run()
    assert list(sim.finished) == [0, 1, 2]


def test_a_light_tenant_does_not_give_way_to_a_heavy_one() -> None:
    """Pages run out under both: the heavy one's newest goes, though the light one came last; the oldest of all stays."""
    sim = tight(20)
    heavy = [sim.submit(12, max_tokens=30, tenant="heavy")[0] for _ in range(3)]
    for _ in range(5):
        sim.step()
    (light,) = sim.submit(12, max_tokens=30, tenant="light")
    preempted = [sequence for _ in range(25) for sequence, *_ in sim.step().preempted]
    assert preempted
    assert light.num_output > 20
    assert {heavy[0], light}.isdisjoint(preempted)
    sim.run()


def test_one_that_fits_no_more_is_ended_and_told() -> None:
    """Pins grow under a running sequence: it ends alone, what it held comes back, and others run."""
    sim = Simulation(num_pages=40, sizes={"p": 20, "a": 6}, floors=Floors(kv=4, adapter=0))
    (long,) = sim.submit(40, max_tokens=40)
    for _ in range(4):
        sim.step()
    sim.gate.pinned.add("p")
    sim.gate.sizes["p"] = 28
    sim.gate.want("p", sim.clock.now_s())
    stranded = [s for _ in range(60) for s in sim.step().stranded]
    assert stranded == [long]
    assert (long.state, long.pages) == ("finished", [])
    (short,) = sim.submit(4, max_tokens=2)
    sim.run()
    assert short.num_output == 2


def test_one_that_waits_and_fits_no_more_is_told_too() -> None:
    """Pins grew while it waited: those behind it are served."""
    sim = Simulation(num_pages=40, sizes={"p": 28, "a": 6}, floors=Floors(kv=4, adapter=0), bounds=limits(max_sequences=1))
    sim.submit(4, max_tokens=3)
    (long,) = sim.submit(40, max_tokens=2)
    (behind,) = sim.submit(4, max_tokens=2)
    sim.step()
    sim.gate.pinned.add("p")
    stranded = [s for _ in range(6) for s in sim.step().stranded]
    assert stranded == [long]
    sim.run()
    assert behind.num_output == 2


@settings(max_examples=60, deadline=None)
@given(
    num_pages=st.integers(6, 14),
    requests=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12),
)
def test_everything_finishes_in_any_small_arena(num_pages: int, requests: list[tuple[int, int]]) -> None:
    """No livelock: whatever fits alone finishes, with all its tokens, and every page comes back."""
    sim = tight(num_pages)
    for prompt, max_tokens in requests:
        if sim.scheduler.can_ever_fit(prompt + max_tokens):
            sim.submit(prompt, max_tokens=max_tokens)
    sim.run(max_steps=3000)
    assert all(s.num_output == s.request.sampling.max_tokens for s in sim.finished.values())
    sim.prefix.evict(num_pages)
    assert sim.pool.num_free == num_pages
