"""What of the engine's state one tenant is shown: its own, what all share, and nothing that tells of others. Pure."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import Conflict
from engine.events import AdapterLoaded, Event, EventPage, RequestFailed, RequestPreempted
from engine.fairness_view import OTHERS, DisplacementRow
from engine.ids import SHARED_TENANT, given_id
from engine.snapshot import MemorySnapshot, RatesSnapshot, RequestsSnapshot, TotalsSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.fairness_view import FairnessSnapshot
    from engine.ids import TenantId
    from engine.snapshot import AdapterRow, EngineSnapshot, LoadRecord


def narrow_rows(rows: Iterable[AdapterRow], tenant: TenantId | None) -> tuple[AdapterRow, ...]:
    """The tenant's adapters whole; shared ones without what their traffic tells; for None all of it."""
    if tenant is None:
        return tuple(rows)
    return tuple(seen for row in rows if (seen := narrow_row(row, tenant)) is not None)


def narrow_row(row: AdapterRow, tenant: TenantId | None) -> AdapterRow | None:
    """One adapter as the tenant sees it, or None: of a shared one all see where it is, and none what others' requests tell."""
    if tenant in {None, row.tenant}:
        return row if tenant is None else replace(row, last_load=narrow_load(row.last_load))
    return _quiet(row) if row.tenant == SHARED_TENANT else None


def narrow_load(load: LoadRecord | None) -> LoadRecord | None:
    """A load without whom it drove away and what it cost others."""
    return None if load is None else _quiet_load(load)


def narrow_snapshot(snapshot: EngineSnapshot, tenant: TenantId | None, *, event: int) -> EngineSnapshot:
    """The engine as a user of one tenant sees it: sums over all tenants are left out, since they tell of the others.

    ``event`` is the number of the newest event that the tenant was told.
    """
    if tenant is None:
        return snapshot
    requests = snapshot.requests
    return replace(
        snapshot,
        step=0,
        memory=MemorySnapshot(),
        adapters=narrow_rows(snapshot.adapters, tenant),
        requests=RequestsSnapshot(
            running=tuple(replace(row, id=given_id(row.id)) for row in requests.running if row.tenant == tenant),
            waiting=tuple(replace(row, id=given_id(row.id)) for row in requests.waiting if row.tenant == tenant),
        ),
        tenants=tuple(row for row in snapshot.tenants if row.tenant == tenant),
        rates=RatesSnapshot(),
        totals=TotalsSnapshot(),
        fairness=narrow_fairness(snapshot.fairness, tenant),
        event=event,
    )


def narrow_fairness(fairness: FairnessSnapshot, tenant: TenantId | None) -> FairnessSnapshot:
    """The tenant's own share, and what it and all others together cost it; what it cost others and the index over all are left out."""
    if tenant is None:
        return fairness
    sums: dict[TenantId, DisplacementRow] = {}
    for row in fairness.displaced:
        if row.of == tenant:
            by = tenant if row.by == tenant else OTHERS
            before = sums.get(by, DisplacementRow(by=by, of=tenant))
            sums[by] = replace(
                before,
                evictions=before.evictions + row.evictions,
                preemptions=before.preemptions + row.preemptions,
                stalled_ms=before.stalled_ms + row.stalled_ms,
            )
    own = tuple(row for row in fairness.tenants if row.tenant == tenant)
    return replace(fairness, jain=None, tenants=own, displaced=tuple(sums.values()))


def narrow_events(page: EventPage, tenant: TenantId | None) -> EventPage:
    """The events that a tenant is told, without what they tell of others."""
    if tenant is None:
        return page
    return replace(page, events=tuple((number, _quiet_event(event)) for number, event in page.events))


@contextmanager
def told_to(tenant: TenantId | None) -> Iterator[None]:
    """A refusal inside reaches a tenant without the sum that decided: it is over what all have."""
    try:
        yield
    except Conflict as refusal:
        if tenant is None or not refusal.arithmetic:
            raise
        raise Conflict(refusal.message, code=refusal.code, param=refusal.param) from None


def _quiet_event(event: Event) -> Event:
    if isinstance(event, AdapterLoaded):
        return replace(event, load=_quiet_load(event.load))
    return replace(event, request=given_id(event.request)) if isinstance(event, RequestFailed | RequestPreempted) else event


def _quiet_load(load: LoadRecord) -> LoadRecord:
    phases = tuple(replace(phase, note="") if phase.name == "allocate" else phase for phase in load.phases)
    waiters = tuple(map(given_id, load.waiters))
    return replace(load, phases=phases, waiters=waiters, evicted=(), others_delay_s=0.0, others_steps=0)


def _quiet(row: AdapterRow) -> AdapterRow:
    return replace(
        row,
        leases=0,
        waiting=0,
        requests=0,
        requests_per_min=0.0,
        cold_starts=0,
        hits=0,
        loads=0,
        ttft_p95_s=None,
        last_used_unix=None,
        last_load=None,
        source="",
    )
