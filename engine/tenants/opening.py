"""Joins tenants to the engine that serves them: limits reach the scheduler as well as the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.tenants.tenants import Tenants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.allowance import Allowance
    from engine.gateway.gate import Gate
    from engine.ids import TenantId
    from engine.loop import EngineLoop
    from engine.model_host import ModelHost


def open_tenants(host: ModelHost, loop: EngineLoop, gate: Gate) -> Tenants:
    """The service, over the host's registry; before the loop starts."""

    def limit(tenants: Mapping[TenantId, Allowance], keys: Mapping[str, Allowance]) -> None:
        gate.set_allowances(tenants, keys)
        loop.post(lambda: host.scheduler.set_allowances(tenants=tenants, keys=keys))

    listens_on_loopback = host.parts.settings.is_loopback
    tenants = Tenants(host.catalog.store, gate, host.clock, listens_on_loopback=listens_on_loopback, limit=limit)
    tenants.on_delete = host.publisher.event_log.forget
    return tenants
