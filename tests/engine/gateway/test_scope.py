"""A tenant sees its own and what is shared, and nothing that tells of another."""

from __future__ import annotations

import dataclasses

import orjson
import pytest

from engine.events import AdapterEvicted, AdapterRejected, EngineStateChanged, EventPage, RequestFailed
from engine.fairness_view import DisplacementRow, FairnessSnapshot, ShareRow
from engine.gateway.scope import narrow_events, narrow_snapshot
from engine.ids import SHARED_TENANT, AdapterId, RequestId, TenantId
from engine.snapshot import (
    AdapterRow,
    EngineSnapshot,
    MemorySnapshot,
    RatesSnapshot,
    RequestsSnapshot,
    RunningRow,
    TenantRow,
    TotalsSnapshot,
    WaitingRow,
)

ACME, RIVAL = TenantId("acme"), TenantId("rival-secret")


def row(tenant: TenantId, alias: str, adapter: str) -> AdapterRow:
    """An adapter in use."""
    return AdapterRow(id=AdapterId(adapter), alias=alias, aliases=(alias,), tenant=tenant, requests=7, leases=3, source=f"/home/{tenant}")


ROWS = (row(ACME, "a", "1"), row(RIVAL, "rival-secret-bot", "2"), row(SHARED_TENANT, "s", "3"))


@pytest.fixture
def busy() -> EngineSnapshot:
    """An engine on which two tenants are at work."""
    running = tuple(
        RunningRow(
            id=RequestId(f"r-{tenant}"),
            tenant=tenant,
            model="m",
            adapter=None,
            prompt_tokens=1,
            output_tokens=1,
            phase="decode",
            running_s=1.0,
        )
        for tenant in (ACME, RIVAL)
    )
    waiting = tuple(
        WaitingRow(id=RequestId(f"w-{tenant}"), tenant=tenant, model="m", adapter=None, reason="batch_full", waited_s=1.0)
        for tenant in (ACME, RIVAL)
    )
    return EngineSnapshot(
        step=48_210,
        memory=MemorySnapshot(total_bytes=99, kv_used_bytes=77),
        adapters=ROWS,
        requests=RequestsSnapshot(running=running, waiting=waiting),
        tenants=(TenantRow(tenant=ACME), TenantRow(tenant=RIVAL)),
        rates=RatesSnapshot(requests=5),
        totals=TotalsSnapshot(requests=48_211),
        fairness=FairnessSnapshot(jain=0.48215, tenants=(ShareRow(tenant=RIVAL),), displaced=(DisplacementRow(by=RIVAL, of=ACME),)),
    )


def test_nothing_of_another_tenant(busy: EngineSnapshot) -> None:
    """Neither its names nor its requests, nor sums from which its own could be taken away."""
    seen = narrow_snapshot(busy, ACME)
    text = orjson.dumps(seen).decode()
    assert "rival" not in text
    assert "4821" not in text
    assert [each.alias for each in seen.adapters] == ["a", "s"]
    assert [each.id for each in (*seen.requests.running, *seen.requests.waiting)] == ["r-acme", "w-acme"]
    assert (seen.adapters[0].requests, seen.adapters[1].requests, seen.adapters[1].leases) == (7, 0, 0)


def test_all_of_it_for_all_tenants(busy: EngineSnapshot) -> None:
    """Who may see every tenant gets the very same value."""
    assert narrow_snapshot(busy, None) is busy


def test_events_of_another_tenant_are_left_out() -> None:
    """An event is told to those whose adapter or request it is about."""
    evicted = AdapterEvicted(at_unix=1.0, adapter=AdapterId("1"), alias="a", from_tier="device", because="operator", idle_s=1.0)
    events = (
        EngineStateChanged(at_unix=1.0, before="starting", after="serving"),
        evicted,
        dataclasses.replace(evicted, adapter=AdapterId("2"), alias="rival-secret-bot"),
        AdapterRejected(at_unix=1.0, source="/x", alias="n", code="c", message="m", tenant=ACME),
        AdapterRejected(at_unix=1.0, source="/x", alias="n", code="c", message="m", tenant=RIVAL),
        RequestFailed(at_unix=1.0, request=RequestId("r"), tenant=RIVAL, code="c", message="m"),
    )
    page = EventPage(events=tuple(enumerate(events)), newest=5)
    assert [number for number, _ in narrow_events(page, ROWS, ACME).events] == [0, 1, 3]
    assert narrow_events(page, ROWS, None) is page
