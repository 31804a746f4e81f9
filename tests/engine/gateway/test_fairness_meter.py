"""How even, how slow, who displaced whom: the figures that are published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fairness_view import OTHERS, DisplacementRow, FairnessSnapshot, ServedWork, ShareRow
from engine.gateway.scope import narrow_fairness
from engine.ids import RequestId, TenantId
from engine.request import RequestRecord
from engine.telemetry.fairness import FairnessMeter, jain, slowdown

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")
RECORD = RequestRecord(
    id=RequestId("r"),
    tenant=A,
    model="m",
    adapter=None,
    tier_at_arrival=None,
    prompt_tokens=1,
    cached_tokens=0,
    completion_tokens=1,
    finish_reason="stop",
    queue_s=3.0,
    adapter_load_s=1.0,
    prefill_s=0.5,
    decode_s=1.5,
    ttft_s=4.5,
    e2e_s=6.0,
    first_step=1,
    last_step=2,
    arrived_s=0.0,
    waits=(("batch_full", 3.0), ("adapter_loading", 1.0)),
)


def served(**by_tenant: float) -> list[ServedWork]:
    """All had requests waiting for a whole minute."""
    return [ServedWork(tenant=TenantId(name), weight=1.0, served=work, backlogged_s=60.0) for name, work in by_tenant.items()]


@pytest.mark.parametrize(
    ("values", "index"),
    [([5.0, 5.0, 5.0, 5.0], 1.0), ([7.0, 0.0, 0.0, 0.0], 0.25), ([1.0, 3.0], 0.8), ([], None), ([0.0, 0.0], None)],
)
def test_jain(values: list[float], index: float | None) -> None:
    """1 for equal shares, 1/n when one takes all."""
    assert jain(values) == (None if index is None else pytest.approx(index))


def test_the_index_counts_those_that_kept_waiting() -> None:
    """Shares of the minute, not of all time; one that hardly ever waited got what it asked for and is left out."""
    meter = FairnessMeter(started_s=0.0)
    assert meter.view(served(a=100.0, b=100.0), 60.0).jain == pytest.approx(1.0)
    later = [
        *(replace(work, served=100.0 + 60.0 * rate, backlogged_s=120.0) for work, rate in zip(served(a=0, b=0), (3, 1), strict=True)),
        ServedWork(tenant=C, weight=1.0, served=9.0, backlogged_s=0.5),
    ]
    view = meter.view(later, 120.0)
    assert view.jain == pytest.approx(0.8)
    assert [(row.tenant, row.is_counted, row.served_per_s) for row in view.tenants] == [(A, True, 3.0), (B, True, 1.0), (C, False, 18.0)]
    assert meter.view(later, 300.0).tenants == ()


def test_slowdown_is_latency_over_what_it_was_worked_on() -> None:
    """Four of six seconds were waits; a wait after a preemption is none of its phases; unknown without an end of its own."""
    assert slowdown(RECORD) == 3.0
    again = replace(RECORD, preemptions=1, decode_s=2.5, e2e_s=7.0, waits=(*RECORD.waits, ("kv_pages", 1.0)))
    assert slowdown(again) == 3.5
    assert slowdown(replace(RECORD, finish_reason="cancelled")) is None
    assert slowdown(replace(RECORD, ttft_s=None, prefill_s=None, decode_s=None)) is None
    assert slowdown(replace(RECORD, prefill_s=0.0, decode_s=0.0)) is None
    meter = FairnessMeter(started_s=0.0)
    meter.record_request(RECORD, now_s=6.0)
    meter.record_request(replace(RECORD, e2e_s=10.0), now_s=6.0)
    (row,) = meter.view([], 6.0).tenants
    assert (row.tenant, row.requests, row.slowdown, row.served_per_s) == (A, 2, 4.0, None)


def test_the_matrix_is_of_the_last_minute() -> None:
    """Sums by pair, the most stalled first; what is older than the window is gone, but not from the counters."""
    meter = FairnessMeter(started_s=0.0)
    meter.evicted(by=A, of=B, now_s=1.0)
    meter.evicted(by=A, of=C, now_s=1.0)
    meter.evicted(by=A, of=A, now_s=1.0)
    meter.stalled(0.25, by=A, of=C, now_s=2.0)
    meter.stalled(0.5, by=A, of=C, now_s=50.0)
    meter.preempted(by=B, of=A, now_s=50.0)
    assert meter.view([], 55.0).displaced == (
        DisplacementRow(by=A, of=C, evictions=1, stalled_ms=750.0),
        DisplacementRow(by=A, of=A, evictions=1),
        DisplacementRow(by=A, of=B, evictions=1),
        DisplacementRow(by=B, of=A, preemptions=1),
    )
    assert [(row.by, row.of) for row in meter.view([], 100.0).displaced] == [(A, C), (B, A)]
    assert meter.evictions_caused.read() == {"a": 2}
    assert meter.stalls_caused_s.read() == {"a": 0.75}


def test_a_tenant_sees_itself_against_the_others() -> None:
    """No name but its own, and what all others together cost it; the index, others' shares and what it cost them are left out."""
    whole = FairnessSnapshot(
        jain=0.9,
        tenants=(ShareRow(tenant=A), ShareRow(tenant=B)),
        displaced=(
            DisplacementRow(by=B, of=A, evictions=2, stalled_ms=5.0),
            DisplacementRow(by=C, of=A, preemptions=1, stalled_ms=1.0),
            DisplacementRow(by=A, of=A, evictions=1),
            DisplacementRow(by=B, of=C, evictions=9),
            DisplacementRow(by=A, of=C, evictions=3, stalled_ms=2.0),
        ),
    )
    seen = narrow_fairness(whole, A)
    assert (seen.jain, seen.tenants) == (None, (ShareRow(tenant=A),))
    assert seen.displaced == (
        DisplacementRow(by=OTHERS, of=A, evictions=2, preemptions=1, stalled_ms=6.0),
        DisplacementRow(by=A, of=A, evictions=1),
    )
    assert narrow_fairness(whole, None) is whole
