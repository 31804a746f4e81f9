"""The order of groups that is kept from plan to plan is the one that sorting all of them would give."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ids import AdapterId, RequestId, TenantId
from engine.request import Request, SamplingParams
from engine.scheduler.fairness import FairShare
from engine.scheduler.queues import WaitingQueue, rank
from engine.scheduler.turns import Turns
from engine.sequence import Sequence

TENANTS = st.sampled_from([TenantId(name) for name in "abcde"])
CHANGES = st.one_of(
    st.tuples(st.just("push"), TENANTS, st.integers(-2, 2)),
    st.tuples(st.just("push"), TENANTS, st.integers(-2, 2)),
    st.tuples(st.just("leave"), TENANTS, st.integers(0, 9)),
    st.tuples(st.just("charge"), TENANTS, st.integers(1, 5)),
    st.tuples(st.just("plan"), TENANTS, st.integers(0, 6)),
)


def sequence(key: int, tenant: TenantId, priority: int) -> Sequence:
    """One of its tenant's, with one of three adapters."""
    request = Request(id=RequestId(str(key)), model="m", prompt_ids=(1,), sampling=SamplingParams(), tenant=tenant, priority=priority)
    adapter = AdapterId(f"a{key % 3}")
    return Sequence(key=key, request=request, index=0, adapter=adapter, token_ids=[1], num_prompt=1, arrived_s=0.0)


def plan(waiting: WaitingQueue, shares: FairShare, most: int) -> None:
    """Every lane that has a turn is the first of those that have none behind them; heads with an even key enter, and are charged for."""
    turns, left = Turns(waiting.order), set(waiting.lanes.values())
    for _ in range(most):
        lane = turns.next()
        assert lane is min(left, key=lambda each: (each.group.account.counter, rank(each.head)), default=None)
        if lane is None:
            return
        head = lane.head
        if head.key % 2:
            left.remove(lane)
            continue
        waiting.remove(head, 0.0)
        shares.charge(head.tenant, 3.0)
        turns.again(lane)
        if not lane.sequences:
            left.remove(lane)


@settings(deadline=None, max_examples=200)
@given(changes=st.lists(CHANGES, max_size=40))
def test_it_is_that_of_sorting_all(changes: list[tuple[str, TenantId, int]]) -> None:
    """However heads come and go and whoever is served, and wherever a plan stops looking."""
    shares = FairShare("vtc")
    waiting = WaitingQueue(shares)
    for key, (what, tenant, number) in enumerate(changes):
        mine = [each for each in waiting if each.tenant == tenant]
        if what == "push":
            waiting.push(sequence(key, tenant, number), 0.0)
        elif what == "leave" and mine:
            waiting.remove(mine[number % len(mine)], 0.0)
        elif what == "charge":
            shares.charge(tenant, float(number))
        elif what == "plan":
            plan(waiting, shares, number)
        waiting.check()
    plan(waiting, shares, 99)
    waiting.check()
