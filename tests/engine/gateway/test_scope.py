"""A tenant sees its own and what is shared, and nothing that tells of another."""

from __future__ import annotations

import dataclasses

import orjson
import pytest

from engine.events import AdapterEvicted, AdapterLoaded, EngineStateChanged, Event, EventPage, OperationChanged, RequestFailed
from engine.fairness_view import DisplacementRow, FairnessSnapshot, ShareRow
from engine.gateway.scope import narrow_events, narrow_row, narrow_snapshot
from engine.ids import SHARED_TENANT, AdapterId, RequestId, TenantId
from engine.snapshot import (
    AdapterRow,
    EngineSnapshot,
    LoadPhase,
    LoadRecord,
    MemorySnapshot,
    RatesSnapshot,
    RequestsSnapshot,
    RunningRow,
    TenantRow,
    TotalsSnapshot,
    WaitingRow,
)
from engine.telemetry.event_log import EVENTS_KEPT, EVENTS_OF_A_TENANT, EventLog

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
            id=RequestId(f"r-{tenant}~7"),
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
        WaitingRow(id=RequestId(f"w-{tenant}~8"), tenant=tenant, model="m", adapter=None, reason="batch_full", waited_s=1.0)
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
        event=48_212,
        fairness=FairnessSnapshot(jain=0.48215, tenants=(ShareRow(tenant=RIVAL),), displaced=(DisplacementRow(by=RIVAL, of=ACME),)),
    )


def test_nothing_of_another_tenant(busy: EngineSnapshot) -> None:
    """Neither its names nor its requests, nor sums from which its own could be taken away."""
    seen = narrow_snapshot(busy, ACME, event=3)
    text = orjson.dumps(seen).decode()
    assert "rival" not in text
    assert "4821" not in text
    assert seen.event == 3
    assert [each.alias for each in seen.adapters] == ["a", "s"]
    assert [each.id for each in (*seen.requests.running, *seen.requests.waiting)] == ["r-acme", "w-acme"]
    assert (seen.adapters[0].requests, seen.adapters[1].requests, seen.adapters[1].leases) == (7, 0, 0)


def test_all_of_it_for_all_tenants(busy: EngineSnapshot) -> None:
    """Who may see every tenant gets the very same value."""
    assert narrow_snapshot(busy, None, event=3) is busy


@pytest.fixture
def log() -> EventLog:
    """A start, then much of the rival's and little of acme's."""
    log = EventLog()
    log.append(EngineStateChanged(at_unix=1.0, before="starting", after="serving"))
    for number in range(20):
        log.append(failed(RIVAL))
        if number % 7 == 0:
            log.append(evicted(ACME))
    return log


def failed(tenant: TenantId) -> Event:
    """A request of a tenant has failed."""
    return RequestFailed(at_unix=1.0, request=RequestId("r~9"), tenant=tenant, code="c", message="m")


def evicted(tenant: TenantId) -> Event:
    """A tenant's adapter has left."""
    return AdapterEvicted(at_unix=1.0, adapter=AdapterId("1"), alias="a", tenant=tenant, from_tier="device", because="operator", idle_s=1.0)


def told(log: EventLog, tenant: TenantId | None, after: int = 0, limit: int = 500) -> EventPage:
    """What a tenant reads."""
    return narrow_events(log.page(after, limit=limit, tenant=tenant), tenant)


def test_events_count_for_each_who_is_told(log: EventLog) -> None:
    """A tenant's numbers are without gaps, and those of everything go on; a cursor goes on where it stood."""
    page = told(log, ACME)
    assert [(number, type(event)) for number, event in page.events] == [(1, EngineStateChanged), *((n, AdapterEvicted) for n in (2, 3, 4))]
    assert (page.newest, page.lost) == (4, 0)
    assert told(log, None).newest == 24
    assert {event.request for _, event in told(log, RIVAL).events[1:]} == {"r"}  # type: ignore[attr-defined]
    assert [number for number, _ in told(log, ACME, after=2, limit=1).events] == [3]
    assert told(log, ACME, after=4).events == ()
    log.append(evicted(ACME))
    assert [number for number, _ in told(log, ACME, after=4).events] == [5]


def test_what_others_do_moves_nothing(log: EventLog, busy: EngineSnapshot) -> None:
    """However much it is, also more than any ring holds: page, cursor, losses and snapshot stay, for one without events too."""
    idle = TenantId("idle")

    def seen() -> list[object]:
        pages = [told(log, tenant, after) for tenant in (ACME, idle) for after in (0, 2)]
        return [*pages, *(narrow_snapshot(busy, tenant, event=log.newest(tenant)).event for tenant in (ACME, idle))]

    before = seen()
    for _ in range(EVENTS_KEPT + 10):
        log.append(failed(RIVAL))
    log.append(OperationChanged(at_unix=1.0, operation="o", kind="k", state="s", total=1, done=0, failed=0, tenant=None))
    assert seen() == before
    assert told(log, None).lost > 0


def test_a_tenants_own_losses_are_told(log: EventLog) -> None:
    """In its own numbers, as a reader of everything is told."""
    for _ in range(EVENTS_OF_A_TENANT):
        log.append(evicted(ACME))
    page = told(log, ACME, after=2)
    assert (page.lost, page.newest) == (2, 4 + EVENTS_OF_A_TENANT)
    assert page.events[0][0] == 5
    log.append(EngineStateChanged(at_unix=1.0, before="serving", after="draining"))
    assert [type(event) for tenant in (ACME, RIVAL, TenantId("idle")) for _, event in told(log, tenant).events[-1:]] == [
        EngineStateChanged
    ] * 3


def test_a_tenant_that_is_gone_leaves_no_events(log: EventLog) -> None:
    """Whoever has its name later reads what a new tenant does."""
    log.forget(ACME)
    assert told(log, ACME) == told(log, TenantId("idle"))


def test_a_load_does_not_tell_whom_it_drove_away() -> None:
    """Neither their ids nor how many they were, nor what it cost others: not in the event and not in the row."""
    phases = (
        LoadPhase(name="allocate", start_s=0.0, duration_s=0.1, note="evicted 3"),
        LoadPhase(name="copy", start_s=0.1, duration_s=0.1, note="7 pages"),
    )
    load = LoadRecord(
        adapter=AdapterId("1"),
        from_tier="disk",
        asked_s=0.0,
        phases=phases,
        total_s=0.2,
        evicted=(AdapterId("2"),),
        others_delay_s=0.5,
        others_steps=4,
    )
    log = EventLog()
    log.append(AdapterLoaded(at_unix=1.0, adapter=AdapterId("1"), alias="a", tenant=ACME, load=load))
    seen = narrow_row(dataclasses.replace(ROWS[0], last_load=load), ACME)
    event = told(log, ACME).events[0][1]
    assert isinstance(event, AdapterLoaded)
    assert seen is not None
    assert event.load == seen.last_load
    assert (event.load.evicted, event.load.others_delay_s, event.load.others_steps) == ((), 0.0, 0)
    assert [phase.note for phase in event.load.phases] == ["", "7 pages"]
    assert told(log, None).events[0][1].load is load  # type: ignore[attr-defined]
