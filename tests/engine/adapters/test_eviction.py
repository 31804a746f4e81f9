"""Who leaves the device first."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.adapters.eviction import HALF_LIFE_S, Candidate, EvictionPolicy, decayed
from engine.ids import AdapterId


def candidate(name: str, **changed: float) -> Candidate:
    """Ten pages, used once at time zero, from host memory."""
    plain = Candidate(adapter=AdapterId(name), pages=10, frequency=1.0, reload_cost=1.0, last_used_s=0.0)
    return plain._replace(**changed)  # type: ignore[arg-type]


def names(victims: list[Candidate]) -> list[str]:
    """Their ids."""
    return [victim.adapter for victim in victims]


candidates = st.lists(
    st.builds(
        Candidate,
        adapter=st.sampled_from([AdapterId(f"a{i}") for i in range(12)]),
        pages=st.integers(1, 20),
        frequency=st.floats(0, 100),
        reload_cost=st.sampled_from([1.0, 4.0]),
        last_used_s=st.floats(0, 1000),
        leases=st.sampled_from([0, 0, 1]),
        pinned=st.booleans(),
    ),
    unique_by=lambda c: c.adapter,
)


@given(candidates=candidates, needed=st.integers(0, 120), name=st.sampled_from(["gdsf", "lru"]))
def test_victims_suffice_and_none_is_held(candidates: list[Candidate], needed: int, name: str) -> None:
    """Enough pages or nobody; never one leased or pinned; never one that could have stayed."""
    victims = EvictionPolicy(name).victims(candidates, needed)  # type: ignore[arg-type]
    idle = sum(c.pages for c in candidates if not c.leases and not c.pinned)
    freed = sum(victim.pages for victim in victims)
    assert not any(victim.leases or victim.pinned for victim in victims)
    assert bool(victims) == (0 < needed <= idle)
    if victims:
        assert freed >= needed
        assert all(freed - victim.pages < needed for victim in victims)


@pytest.mark.parametrize("name", ["gdsf", "lru"])
@given(candidates=candidates, needed=st.integers(1, 60), order=st.randoms())
def test_the_order_of_candidates_does_not_matter(name: str, candidates: list[Candidate], needed: int, order: object) -> None:
    """The same facts give the same victims."""
    shuffled = list(candidates)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert names(EvictionPolicy(name).victims(candidates, needed)) == names(EvictionPolicy(name).victims(shuffled, needed))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gdsf", "lru"])
@given(
    candidates=candidates,
    asks=st.lists(st.tuples(st.integers(0, 40), st.sampled_from([None, *range(12)])), max_size=5),
    clock=st.floats(0, 9),
)
def test_one_order_gives_what_asking_anew_gives(
    name: Literal["gdsf", "lru"], candidates: list[Candidate], asks: list[tuple[int, int | None]], clock: float
) -> None:
    """Several choices, with leases between them: each is that of a policy that looks again at all that are idle by then."""
    policy, again = EvictionPolicy(name), EvictionPolicy(name)
    policy.clock = again.clock = clock
    order, left = policy.order(candidates), {each.adapter: each for each in candidates}
    for needed, leased in asks:
        left.pop(AdapterId(f"a{leased}"), None)
        chosen = order.take(needed, is_idle=left.__contains__)
        assert chosen == again.victims(left.values(), needed)
        assert policy.clock == again.clock
        for victim in chosen:
            del left[victim.adapter]


@pytest.mark.parametrize("name", ["gdsf", "lru"])
def test_equals_leave_in_a_fixed_order(name: str) -> None:
    """The one unused longer, then the lower id, in whatever order they are listed."""
    b, a = candidate("b"), candidate("a")
    assert names(EvictionPolicy(name).victims([b, a], 1)) == ["a"]  # type: ignore[arg-type]
    assert names(EvictionPolicy(name).victims([candidate("a", last_used_s=1.0), b], 1)) == ["b"]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gdsf", "lru"])
def test_one_that_is_waited_for_leaves_last(name: str) -> None:
    """A load does not push out what was just loaded for somebody else."""
    idle = [candidate("fresh", waiting=1), candidate("popular", frequency=9.0, last_used_s=5.0)]
    assert names(EvictionPolicy(name).victims(idle, 1)) == ["popular"]  # type: ignore[arg-type]
    assert names(EvictionPolicy(name).victims(idle, 11)) == ["popular", "fresh"]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gdsf", "lru"])
def test_one_that_came_for_a_request_and_was_not_used_yet_leaves_after_all_others(name: str) -> None:
    """Else loads evict one another for ever; once nobody waits for it any more, it is like any other."""
    idle = [candidate("came", waiting=1, unused=True), candidate("stayed", waiting=3, frequency=9.0, last_used_s=5.0)]
    assert names(EvictionPolicy(name).victims(idle, 1)) == ["stayed"]  # type: ignore[arg-type]
    alone = [candidate("came", unused=True), candidate("stayed", frequency=9.0, last_used_s=5.0)]
    assert names(EvictionPolicy(name).victims(alone, 1)) == ["came"]  # type: ignore[arg-type]


def test_lru_takes_the_one_unused_longest() -> None:
    """Whatever its size or use."""
    idle = [candidate("new", last_used_s=9.0), candidate("old", last_used_s=1.0, frequency=50.0)]
    assert names(EvictionPolicy("lru").victims(idle, 1)) == ["old"]


@pytest.mark.parametrize("better", [{"frequency": 2.0}, {"reload_cost": 4.0}, {"pages": 5}])
def test_gdsf_keeps_what_saves_more_per_page(better: dict[str, float]) -> None:
    """More use, a dearer reload or fewer pages stay longer."""
    idle = [candidate("a", **better), candidate("b")]
    assert names(EvictionPolicy("gdsf").victims(idle, 1)) == ["b"]


def test_gdsf_forgets_past_glory() -> None:
    """Each eviction moves the clock, so one popular long ago falls behind newcomers."""
    policy = EvictionPolicy("gdsf")
    star = candidate("star", frequency=5.0)
    for turn in range(60):
        newcomer = candidate(f"n{turn}", last_used_s=float(turn + 1))
        other = candidate(f"m{turn}", last_used_s=float(turn + 1))
        if names(policy.victims([star, newcomer, other], 1)) == ["star"]:
            return
    pytest.fail("the star never left")


def test_a_use_since_the_last_choice_counts() -> None:
    """With the same clock at use it would be the next victim; used again, it is not."""
    policy = EvictionPolicy("gdsf")
    policy.victims([candidate("a"), candidate("b", frequency=9.0), candidate("c", frequency=9.0)], 25)
    policy.clock += 5.0
    idle = [candidate("a", last_used_s=1.0), candidate("b", frequency=1.5)]
    assert names(policy.victims(idle, 1)) == ["b"]


def test_a_frequency_halves() -> None:
    """And never grows by itself."""
    assert decayed(8.0, HALF_LIFE_S) == pytest.approx(4.0)
    assert decayed(8.0, -1.0) == 8.0
