"""Turns the engine's live state into frozen rows and the snapshot. Engine thread."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from engine.adapters.probe import fingerprint_text
from engine.batch_rows import requests_snapshot
from engine.fairness_view import ServedWork
from engine.held import adapter_pages
from engine.memory.ledger import DeviceBytes, LedgerFacts, PageCounts, account
from engine.snapshot import (
    AdapterRow,
    EngineSnapshot,
    EngineState,
    LoadRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.adapters.entry import AdapterEntry
    from engine.ids import AdapterId
    from engine.model_host import ModelHost
    from engine.scheduler.fairness import Account
    from engine.snapshot import MemorySnapshot
    from engine.version import VersionRecord

REFRESH_S = 1.0
"""How often rows of adapters in use are made anew for their rates."""
IN_USE_S = 90.0
"""An adapter used within this time has rates that still change."""


class Observer:
    """Keeps one row an adapter and replaces it when something about it changed, so that thousands cost little."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._rows: dict[AdapterId, AdapterRow] = {}
        self._stale: set[AdapterId] = set()
        self._in_use: set[AdapterId] = set()
        self._adapters: tuple[AdapterRow, ...] = ()
        self._refreshed_s = 0.0
        self.last_loads: dict[AdapterId, LoadRecord] = {}
        self.state: EngineState = "serving"
        self.state_reason = ""
        self.state_since_unix = time.time()
        self.started_unix = time.time()

    def changed(self, adapter: AdapterId) -> None:
        """Its row is to be made anew before the next snapshot."""
        self._stale.add(adapter)

    def forget(self, adapter: AdapterId) -> None:
        """It is no longer registered."""
        self._stale.add(adapter)
        self.last_loads.pop(adapter, None)
        self._host.publisher.forget_adapter(adapter)

    def snapshot(self, step: int, now_s: float) -> EngineSnapshot:
        """The whole engine at this moment, between two steps."""
        host = self._host
        self._refresh(now_s)
        requests = requests_snapshot(host.scheduler.running, [*host.scheduler.waiting, *host.scheduler.held], now_s)
        return EngineSnapshot(
            step=step,
            taken_s=now_s,
            taken_unix=time.time(),
            started_unix=self.started_unix,
            state=self.state,
            state_since_unix=self.state_since_unix,
            state_reason=self.state_reason,
            memory=self.memory(),
            adapters=self._adapters,
            requests=requests,
            tenants=host.publisher.tenants(now_s, requests),
            rates=host.publisher.rates(now_s),
            totals=host.publisher.totals(),
            device=host.parts.device,
            fairness=host.publisher.fairness.view(served_work(host.scheduler.shares, now_s), now_s),
            event=host.publisher.event_log.newest(),
        )

    def memory(self) -> MemorySnapshot:
        """Every byte of the device, by owner."""
        host = self._host
        pool, layout, budget = host.pool, host.parts.arena.layout, host.parts.budget
        held = adapter_pages(host.residency.holders())
        return account(
            DeviceBytes(total=budget.total, base=budget.base, workspace=budget.workspace, other=budget.other),
            PageCounts(
                page_bytes=layout.page_bytes,
                num_pages=pool.num_pages,
                kv=pool.count("kv"),
                prefix=pool.count("prefix"),
                shared=pool.num_shared,
                adapter=pool.count("adapter"),
                pinned=held.pages["pinned"],
                leased=held.pages["leased"],
                kv_floor=host.kv_floor_pages,
            ),
            LedgerFacts(
                host_used_bytes=host.residency.host.used_bytes,
                host_budget_bytes=host.residency.host.budget_bytes,
                disk_used_bytes=host.residency.roster.stored_bytes,
                adapters_pinned=held.count["pinned"],
                adapters_leased=held.count["leased"],
                adapters_cached=held.count["cached"],
                kv_used_tokens=sum(sequence.num_computed for sequence in host.scheduler.running),
                kv_prefix_tokens=(pool.count("prefix") - pool.num_shared) * layout.page_tokens,
            ),
        )

    def row(self, entry: AdapterEntry) -> AdapterRow:
        """An operator's view of one adapter, now."""
        pin, record = entry.pin, self._host.catalog.versions.get(entry.record.id, entry.record)
        traffic = self._host.publisher.adapter(record.id, self._host.clock.now_s())
        row = static_row(dataclasses.replace(record, fingerprint=entry.record.fingerprint), entry.alias)
        live: dict[str, Any] = {
            "aliases": tuple(alias.name for alias in entry.aliases),
            "tier": entry.residency(in_host=record.id in self._host.residency.host),
            "pinned": pin is not None,
            "pin_tier": pin.tier if pin else None,
            "pin_until": pin.until_unix if pin else None,
            "pin_reason": pin.reason if pin else "",
            "leases": entry.leases,
            "waiting": entry.users - entry.leases,
            "drain_eta_s": self._host.lifecycle.drain(record.id)[1] if entry.retired else None,
            "lifecycle": "retired" if entry.retired else "rejected" if entry.quarantined else "ready",
            "last_used_unix": entry.last_used_unix,
            "probe": entry.probe,
            "last_load": self.last_loads.get(record.id),
        }
        if traffic is not None:
            live |= {
                "requests": traffic.requests,
                "requests_per_min": traffic.requests_per_min,
                "cold_starts": traffic.cold_starts,
                "hits": traffic.hits,
                "ttft_p95_s": traffic.ttft_p95_s,
            }
        return dataclasses.replace(row, **live, loads=entry.loads)

    def _refresh(self, now_s: float) -> None:
        entries = self._host.residency.entries
        self._in_use |= self._stale
        if now_s - self._refreshed_s >= REFRESH_S:
            self._refreshed_s = now_s
            asked = (entries[key] for key in self._in_use if key in entries)
            self._in_use = {entry.record.id for entry in asked if entry.users or 0 < now_s - entry.last_used_s < IN_USE_S}
            self._stale |= self._in_use
        for adapter in self._stale:
            if adapter in entries and _is_shown(entries[adapter]):
                self._rows[adapter] = self.row(entries[adapter])
            else:
                self._rows.pop(adapter, None)
        if self._stale:
            self._adapters = tuple(self._rows.values())  # else the same object, so that readers need not compare
        self._stale.clear()


def _is_shown(entry: AdapterEntry) -> bool:
    """Versions that a name leads to, and others while they hold memory or requests."""
    return bool(entry.aliases or entry.canary_of or entry.on_device or entry.users)


def served_work(shares: Iterable[Account], now_s: float) -> Iterator[ServedWork]:
    """Every tenant's account, as it stands."""
    for each in shares:
        yield ServedWork(tenant=each.tenant, weight=each.weight, served=each.served, backlogged_s=each.backlogged_s(now_s))


def static_row(record: VersionRecord, alias: str) -> AdapterRow:
    """What a version's record alone says."""
    return AdapterRow(
        id=record.id,
        alias=alias,
        tenant=record.tenant,
        number=record.number,
        bytes=record.bytes,
        pages=record.num_pages,
        rank=record.rank,
        modules=record.modules,
        num_matched=record.num_matched,
        base_proof=record.base_proof,
        warnings=record.warnings,
        synthetic=record.synthetic,
        source=record.source,
        registered_unix=record.registered_unix,
        probe_fingerprint=fingerprint_text(record.fingerprint),
    )
