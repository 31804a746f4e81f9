"""Who has which weights, where several tenants registered the same. Engine thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.holding import Holding

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord


def holdings(host: ModelHost, entry: AdapterEntry, held: dict[TenantId, VersionRecord]) -> tuple[Holding, ...]:
    """Each tenant's side; none where only one tenant has them, since its side is the whole."""
    return tuple(_holding(host, entry, record) for record in held.values()) if len(held) > 1 else ()


def _holding(host: ModelHost, entry: AdapterEntry, record: VersionRecord) -> Holding:
    tenant, now_s = record.tenant, host.clock.now_s()
    traffic = host.publisher.adapter(record.id, now_s, tenant=tenant)
    running = sum(each.adapter == record.id and each.tenant == tenant for each in host.scheduler.running)
    queued = (*host.scheduler.waiting, *host.scheduler.held)
    pin = entry.pins.get(tenant)
    return Holding(
        tenant=tenant,
        aliases=tuple(alias.name for alias in entry.aliases if alias.tenant == tenant),
        source=record.source,
        registered_unix=record.registered_unix,
        base_proof=record.base_proof,
        warnings=record.warnings,
        leases=running,
        waiting=sum(each.adapter == record.id and each.tenant == tenant for each in queued),
        requests=traffic.requests if traffic else 0,
        requests_per_min=traffic.requests_per_min if traffic else 0.0,
        cold_starts=traffic.cold_starts if traffic else 0,
        hits=traffic.hits if traffic else 0,
        ttft_p95_s=traffic.ttft_p95_s if traffic else None,
        last_used_unix=time.time() - (now_s - traffic.ended_s) if traffic else None,
        pin_tier=pin.tier if pin else None,
        pin_until=pin.until_unix if pin else None,
        pin_reason=pin.reason if pin else "",
    )
