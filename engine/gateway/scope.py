"""What of the engine's state one tenant is shown: its own, what all share, and nothing that tells of others. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.events import EngineStateChanged, Event, EventPage
from engine.fairness_view import OTHERS, DisplacementRow
from engine.ids import SHARED_TENANT
from engine.snapshot import MemorySnapshot, RatesSnapshot, RequestsSnapshot, TotalsSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.fairness_view import FairnessSnapshot
    from engine.ids import AdapterId, TenantId
    from engine.snapshot import AdapterRow, EngineSnapshot

NEVER_NARROW = (EngineStateChanged,)
"""Events that everybody is told."""


def narrow_rows(rows: Iterable[AdapterRow], tenant: TenantId | None) -> tuple[AdapterRow, ...]:
    """The tenant's adapters whole; shared ones without what their traffic tells; for None all of it."""
    if tenant is None:
        return tuple(rows)
    return tuple(row if row.tenant == tenant else _quiet(row) for row in rows if row.tenant in {tenant, SHARED_TENANT})


def narrow_snapshot(snapshot: EngineSnapshot, tenant: TenantId | None) -> EngineSnapshot:
    """The engine as a user of one tenant sees it: sums over all tenants are left out, since they tell of the others."""
    if tenant is None:
        return snapshot
    requests = snapshot.requests
    return replace(
        snapshot,
        step=0,
        memory=MemorySnapshot(),
        adapters=narrow_rows(snapshot.adapters, tenant),
        requests=RequestsSnapshot(
            running=tuple(row for row in requests.running if row.tenant == tenant),
            waiting=tuple(row for row in requests.waiting if row.tenant == tenant),
        ),
        tenants=tuple(row for row in snapshot.tenants if row.tenant == tenant),
        rates=RatesSnapshot(),
        totals=TotalsSnapshot(),
        fairness=narrow_fairness(snapshot.fairness, tenant),
    )


def narrow_fairness(fairness: FairnessSnapshot, tenant: TenantId | None) -> FairnessSnapshot:
    """The tenant's own share, and what it and all others together cost each other; the index over all is left out."""
    if tenant is None:
        return fairness
    sums: dict[tuple[TenantId, TenantId], DisplacementRow] = {}
    for row in fairness.displaced:
        if tenant in {row.by, row.of}:
            by, of = (each if each == tenant else OTHERS for each in (row.by, row.of))
            before = sums.get((by, of), DisplacementRow(by=by, of=of))
            sums[by, of] = replace(
                before,
                evictions=before.evictions + row.evictions,
                preemptions=before.preemptions + row.preemptions,
                stalled_ms=before.stalled_ms + row.stalled_ms,
            )
    own = tuple(row for row in fairness.tenants if row.tenant == tenant)
    return replace(fairness, jain=None, tenants=own, displaced=tuple(sums.values()))


def narrow_events(page: EventPage, rows: Iterable[AdapterRow], tenant: TenantId | None) -> EventPage:
    """The events about the tenant; ``rows`` are all adapters, which say whose an event's alias is."""
    if tenant is None:
        return page
    own = {(row.id, alias) for row in rows if row.tenant == tenant for alias in {row.alias, *row.aliases}}
    return replace(page, events=tuple((number, event) for number, event in page.events if _tells(event, own, tenant)))


def _tells(event: Event, own: set[tuple[AdapterId, str]], tenant: TenantId) -> bool:
    if isinstance(event, NEVER_NARROW):
        return True
    if hasattr(event, "tenant"):
        return bool(event.tenant == tenant)
    return (getattr(event, "adapter", ""), getattr(event, "alias", "")) in own


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
