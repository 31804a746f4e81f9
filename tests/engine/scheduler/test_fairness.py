"""No tenant gets more than its share while others wait, and none banks credit."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ids import TenantId
from engine.memory.reclaim import Floors
from engine.scheduler.fairness import OUTPUT_TOKEN, PAGE_STEP, PROMPT_TOKEN, FairShare
from tests.engine.scheduler.simulation import STEP_S, Simulation, limits

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


def served(sim: Simulation, tenant: str) -> int:
    """Tokens computed for a tenant."""
    return sum(row.num_tokens for plan in sim.plans for row in plan.rows if row.sequence.tenant == tenant)


def test_the_least_served_tenant_is_next() -> None:
    """With one seat, tenants alternate although one of them came with all its requests first."""
    sim = Simulation(bounds=limits(max_sequences=1))
    for tenant in "aaaabbbb":
        sim.submit(3, max_tokens=2, tenant=tenant)
    sim.run()
    assert [s.tenant for s in sim.finished.values()] == list("abababab")


def test_priority_counts_within_a_tenant_only() -> None:
    """Lower goes first, then arrival; another tenant's requests are none of its business."""
    sim = Simulation(bounds=limits(max_sequences=1))
    for tenant, priority in (("a", 0), ("a", 5), ("a", -1), ("a", -1), ("b", 9)):
        sim.submit(3, max_tokens=2, tenant=tenant, priority=priority)
    sim.run()
    assert [s.key for s in sim.finished.values() if s.tenant == "a"] == [2, 3, 0, 1]
    assert list(sim.finished).index(4) <= 1


def test_weights_divide() -> None:
    """Of two tenants that always wait, the one of thrice the weight gets thrice the tokens."""
    sim = Simulation(bounds=limits(max_sequences=4))
    sim.allow("a", weight=3.0)
    for _ in range(200):
        for tenant in "ab":
            sim.submit(5, max_tokens=5, tenant=tenant)
    for _ in range(200):
        sim.step()
    assert served(sim, "a") / served(sim, "b") == pytest.approx(3.0, rel=0.1)


def test_one_that_returns_is_lifted() -> None:
    """Hours of silence buy nothing: the two share from then on."""
    sim = Simulation(bounds=limits(max_sequences=2))
    sim.submit(4, max_tokens=1, tenant="b")
    for _ in range(60):
        sim.submit(4, max_tokens=4, tenant="a")
    for _ in range(100):
        sim.step()
    start = len(sim.plans)
    for _ in range(60):
        sim.submit(4, max_tokens=4, tenant="a")
        sim.submit(4, max_tokens=4, tenant="b")
    for _ in range(60):
        sim.step()
    tokens = Counter(row.sequence.tenant for plan in sim.plans[start:] for row in plan.rows)
    assert tokens[B] == pytest.approx(tokens[A], rel=0.2)


def test_the_lift_is_to_those_that_wait_else_to_who_left_last() -> None:
    """Algorithm 2: the least counter among those that wait; with nobody waiting, that of the last one that did."""
    shares = FairShare("vtc")
    shares.starts_waiting(A, 0.0, returns=True)
    shares.charge(A, 50.0)
    shares.starts_waiting(B, 1.0, returns=True)
    assert shares.account(B).counter == 50.0
    shares.stops_waiting(B, 2.0)
    shares.charge(B, 30.0)
    shares.stops_waiting(A, 3.0)
    shares.charge(A, 5.0)
    shares.starts_waiting(C, 4.0, returns=True)
    assert shares.account(C).counter == 55.0
    assert (shares.account(A).served, shares.account(A).backlogged_s(9.0)) == (50.0, 3.0)


def test_one_that_is_preempted_is_not_lifted() -> None:
    """What it is owed stays owed: it does not return, it never left."""
    shares = FairShare("vtc")
    shares.starts_waiting(A, 0.0, returns=True)
    shares.charge(A, 50.0)
    shares.starts_waiting(B, 1.0, returns=False)
    assert shares.account(B).counter == 0.0


def test_what_is_charged() -> None:
    """Prompt tokens that are computed, output tokens, pages held, pages loaded; cached ones are free."""
    sim = Simulation(sizes={"x": 6})
    prompt = list(range(9))
    sim.submit(prompt, max_tokens=3, tenant="a", adapter="x")
    sim.run()
    loaded, pages = 6.0, 3 * 3
    once = loaded + PROMPT_TOKEN * 9 + OUTPUT_TOKEN * 3 + PAGE_STEP * pages
    assert sim.scheduler.shares.account(A).counter == pytest.approx(once)
    sim.submit(prompt, max_tokens=3, tenant="a", adapter="x")
    sim.run()
    again = PROMPT_TOKEN * 1 + OUTPUT_TOKEN * 3 + PAGE_STEP * pages
    assert sim.scheduler.shares.account(A).counter == pytest.approx(once + again)


@settings(max_examples=40, deadline=None)
@given(
    seats=st.integers(1, 4),
    asks=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 8)), min_size=2, max_size=2),
    turns=st.integers(1, 40),
)
def test_the_gap_between_two_that_wait_is_bounded(seats: int, asks: list[tuple[int, int]], turns: int) -> None:
    """For however long both wait, neither is served more than 2 · max(a prompt, a whole batch) beyond the other."""
    sim = Simulation(bounds=limits(max_sequences=seats))
    for _ in range(turns * 8):
        for tenant, (prompt, max_tokens) in zip("ab", asks, strict=True):
            sim.submit(prompt, max_tokens=max_tokens, tenant=tenant)
    largest = max(prompt + 2 * max_tokens + max_tokens * (prompt + max_tokens) / 256 for prompt, max_tokens in asks)
    shares = sim.scheduler.shares
    for _ in range(turns * 4):
        if {s.tenant for s in sim.scheduler.waiting} != {A, B}:
            break
        sim.step()
        assert abs(shares.account(A).counter - shares.account(B).counter) <= 2 * seats * largest


def test_it_says_when_others_are_served_first() -> None:
    """Seats are full: the next tenant waits for a seat, the other for its turn; on a limit it says so."""
    sim = Simulation(bounds=limits(max_sequences=1))
    sim.allow("c", max_running=0)
    for tenant in "aabc":
        sim.submit(3, max_tokens=9, tenant=tenant)
    sim.step()
    reasons = {s.tenant: s.wait_reason for s in sim.scheduler.waiting}
    assert reasons == {"a": "fair_share", "b": "batch_full", "c": "tenant_limit"}


def test_a_light_tenant_gets_a_place_although_a_heavy_one_has_many_adapters() -> None:
    """B07: one place and twelve adapters of a heavy tenant that never run dry: the light tenant's comes in within the bound."""
    names = [f"h{i}" for i in range(12)]
    sim = Simulation(sizes=dict.fromkeys([*names, "light"], 4), load_s=2 * STEP_S, bounds=limits(max_adapters=1, drain_after_s=10 * STEP_S))
    queued: Counter[str] = Counter()

    def refill() -> None:
        waiting = Counter(s.adapter for s in (*sim.scheduler.waiting, *sim.scheduler.running))
        for name in names:
            if waiting[name] < 3:  # type: ignore[index]
                queued[name] += 1
                sim.submit(4, max_tokens=8, adapter=name, tenant="heavy")

    for _ in range(150):
        refill()
        sim.step()
    (light,) = sim.submit(4, max_tokens=2, adapter="light", tenant="light")
    asked_s = sim.clock.now_s()
    while light.first_token_s is None:
        refill()
        sim.step()
        assert sim.clock.now_s() - asked_s <= (10 + 2 * 2 * (8 + 3)) * STEP_S
    assert len(queued) == 12


def test_loads_for_two_tenants_do_not_push_one_another_out() -> None:
    """One place and no drain: a load is paid when it is used, so whose turn it is stays so until then, and everything finishes."""
    sim = Simulation(
        num_pages=40, sizes={"x": 16, "y": 16}, load_s=2 * STEP_S, floors=Floors(kv=20, adapter=4), bounds=limits(drain_after_s=1e9)
    )
    for _ in range(20):
        for tenant, adapter in (("a", "x"), ("b", "y")):
            sim.submit(4, max_tokens=3, tenant=tenant, adapter=adapter)
    sim.run(max_steps=800)
    assert len(sim.gate.evicted) < 40


def test_priority_means_nothing_where_arrival_decides() -> None:
    """There all tenants are one group, so the urgent one of a would overtake b's."""
    for fairness, first in (("vtc", [2, 1, 0]), ("arrival", [0, 1, 2])):
        sim = Simulation(bounds=limits(max_sequences=1), fairness=fairness)  # type: ignore[arg-type]
        sim.submit(4, tenant="a", max_tokens=1)
        sim.submit(4, tenant="b", max_tokens=1)
        sim.submit(4, tenant="a", max_tokens=1, priority=-5)
        sim.run()
        assert [row.sequence.key for plan in sim.plans for row in plan.rows] == first
