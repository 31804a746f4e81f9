"""A version's way through the engine: adopted, proven, named, withdrawn, forgotten; and what is recorded on the way. Engine thread."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING

from engine.adapters.listener import ResidencyListener
from engine.errors import LoradeckError
from engine.events import AdapterEvicted, AdapterLoaded, AdapterLoadFailed
from engine.snapshot import LoadRecord
from engine.versions.canaries import end_canaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.adapters.entry import AdapterEntry, Load
    from engine.adapters.listener import LeftBecause
    from engine.alias import AliasRecord
    from engine.ids import AdapterId, TenantId, Tier
    from engine.model_host import ModelHost
    from engine.snapshot import AdapterRow
    from engine.version import VersionRecord


class AdapterLifecycle(ResidencyListener):
    """Listens to residency and keeps catalog, prefix cache, events and rows in step with it."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._waiting: defaultdict[AdapterId, list[Callable[[LoradeckError | None], None]]] = defaultdict(list)
        self._load_s: dict[tuple[TenantId, Tier, Tier], tuple[float, int]] = {}

    # Asked by registration and control

    def adopt(self, record: VersionRecord) -> VersionRecord:
        """Take a version in, under no alias yet; it stays until ``let_go``. Its record, with the fingerprint it has."""
        entry = self._host.residency.add(record)
        entry.claims += 1
        if entry.quarantined:
            self._host.residency.host.drop(record.id)
            entry.absolve()
        return dataclasses.replace(record, fingerprint=entry.record.fingerprint)

    def let_go(self, adapter: AdapterId) -> None:
        """A registration has ended; a version that came to no alias goes again."""
        self._host.residency.entry(adapter).claims -= 1
        self.forget_unused(adapter)

    def point(self, before: AliasRecord | None, now: AliasRecord) -> AdapterRow:
        """A name leads to another version, or canary; what it led to before stays ready, and leaves when it is idle like any other."""
        if before is not None:
            self.unname(before)
        return self._host.observer.row(self.name(now))

    def name(self, alias: AliasRecord) -> AdapterEntry:
        """A name leads to a version that is ready, and for a share of requests to its canary."""
        entry = self._host.residency.add(self._host.catalog.versions[alias.adapter])
        entry.aliases.append(alias.alias)
        self.changed(entry)
        if alias.canary is not None and alias.canary in self._host.residency.entries:
            second = self._host.residency.entry(alias.canary)
            second.canary_of.append(alias.alias)
            self.changed(second)
        return entry

    def unname(self, alias: AliasRecord) -> None:
        """A name leads nowhere any more."""
        for adapter in (alias.adapter, alias.canary):
            entry = None if adapter is None else self._host.residency.entries.get(adapter)
            if entry is not None:
                entry.aliases = [name for name in entry.aliases if name != alias.alias]
                entry.canary_of = [name for name in entry.canary_of if name != alias.alias]
                self.changed(entry)

    def align(self) -> None:
        """Entries follow the whole catalog, after a change that was stored and whose caller could not be told."""
        catalog, residency = self._host.catalog, self._host.residency
        for record in catalog.versions.values():
            residency.add(record)
        for adapter, entry in list(residency.entries.items()):
            entry.aliases, entry.canary_of = [], []
            self.settle(adapter)
        for alias in catalog.aliases.values():
            if alias.adapter in catalog.versions:
                self.name(alias)

    def settle(self, adapter: AdapterId) -> None:
        """A version has changed its state: one that is not ready goes once nobody uses it."""
        entry = self._host.residency.entries.get(adapter)
        if entry is None:
            return
        entry.retired = adapter not in self._host.catalog.versions
        self.changed(entry)
        if entry.retired:
            self._host.residency.set_pin(entry, None)
            self.forget_unused(adapter)

    def drain(self, adapter: AdapterId) -> tuple[int, float | None]:
        """Requests that use a version, and the seconds until the last of them ends at the latest; None before anything was measured."""
        entry = self._host.residency.entries.get(adapter)
        if entry is None or not entry.users:
            return 0, 0.0
        step_s = self._host.median_step_s
        running = (sequence for sequence in self._host.scheduler.running if sequence.adapter == adapter)
        left = max((sequence.request.sampling.max_tokens - sequence.num_output for sequence in running), default=0)
        return entry.users, None if step_s is None else left * step_s

    def forget_unused(self, adapter: AdapterId) -> None:
        """Free all that a version holds that is not ready and that nobody uses; its image goes where no version keeps it."""
        entry, catalog = self._host.residency.entries.get(adapter), self._host.catalog
        if entry is None or adapter in catalog.versions or self._waiting.get(adapter):
            return
        if entry.users or entry.claims or entry.holds or entry.load is not None:
            return
        self._host.prefix.drop_adapter(adapter)
        self._host.residency.remove(adapter)
        if not catalog.keeps(adapter):
            self._host.residency.disk.delete(adapter)
        self._host.observer.forget(adapter)

    def forget_retired(self, entry: AdapterEntry) -> None:
        """Let a withdrawn version go, if this was the last thing that held it."""
        if entry.retired:
            self.forget_unused(entry.record.id)

    def prove(self, adapter: AdapterId, *, now: bool) -> Future[tuple[float, ...]]:
        """The fingerprint, or AdapterRefused; where it has none yet, it is brought to the device and probed ``now``, or stays without."""
        future: Future[tuple[float, ...]] = Future()
        entry = self._host.residency.entry(adapter)
        if entry.record.fingerprint or not now:
            future.set_result(entry.record.fingerprint)
            return future

        def done(error: LoradeckError | None) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(entry.record.fingerprint)

        self.bring(entry, "device", done)
        return future

    def bring(self, entry: AdapterEntry, tier: Tier, done: Callable[[LoradeckError | None], None]) -> None:
        """Move a version nearer; ``done`` hears when it is there, or why not."""
        residency = self._host.residency
        in_host = entry.record.id in residency.host
        if (entry.on_device and entry.load is None) or (tier == "host" and in_host and entry.load is None):
            done(None)
            return
        self._waiting[entry.record.id].append(done)
        residency.want(entry.record.id, self._host.clock.now_s(), to_tier=tier)

    def load_eta_s(self, entry: AdapterEntry, tier: Tier) -> float | None:
        """Seconds until it is on ``tier``, from the mean time a page of its tenant's took before; None when nothing was measured."""
        residency = self._host.residency
        if entry.on_device:
            return 0.0
        from_tier = entry.tier(in_host=entry.record.id in residency.host)
        if from_tier == tier:
            return 0.0
        total_s, pages = self._load_s.get((entry.record.tenant, from_tier, tier), (0.0, 0))
        return total_s / pages * entry.record.num_pages if pages else None

    # Heard from residency

    def changed(self, entry: AdapterEntry) -> None:
        """Its row is made anew, and the snapshot soon."""
        self._host.observer.changed(entry.record.id)
        self._host.is_dirty = True

    def needs_probe(self, entry: AdapterEntry) -> None:
        """Probe it between two steps."""
        self._host.prover.add(entry)

    def arrived(self, entry: AdapterEntry, load: Load) -> None:
        """Record the load, and tell who waited for it."""
        if load.to_tier == "device":
            record = load_record(entry, load, median_step_s=self._host.median_step_s, now_s=self._host.clock.now_s())
            entry.loads += 1
            self._host.observer.last_loads[entry.record.id] = record
            self._host.publisher.record_load(record)
            self._event(
                AdapterLoaded(at_unix=time.time(), adapter=entry.record.id, alias=entry.alias, tenant=entry.record.tenant, load=record)
            )
        way = (entry.record.tenant, load.from_tier, load.to_tier)
        spent_s, pages = self._load_s.get(way, (0.0, 0))
        busy_s = sum(phase.duration_s for phase in load.phases)
        self._load_s[way] = (spent_s + busy_s, pages + entry.record.num_pages)
        self._tell(entry.record.id, None)
        self.forget_retired(entry)

    def failed(self, entry: AdapterEntry, error: LoradeckError) -> None:
        """Record it; requests that waited for it end with the error."""
        record, at_unix = entry.record, time.time()
        self._event(AdapterLoadFailed(at_unix=at_unix, adapter=record.id, alias=entry.alias, tenant=record.tenant, message=error.message))
        self._host.requests.fail_adapter(entry.record.id, error)
        if error.code != "adapter_pages":
            end_canaries(self._host, entry, f"The canary {entry.record.id} cannot be loaded: {error.message}")
        self._tell(entry.record.id, error)
        self.forget_retired(entry)

    def left_device(self, entry: AdapterEntry, because: LeftBecause) -> None:
        """Record it, and for whom."""
        if entry.displaced_by is not None:
            self._host.publisher.fairness.evicted(by=entry.displaced_by, of=entry.record.tenant, now_s=self._host.clock.now_s())
        self._left(entry, "device", because)

    def left_host(self, entry: AdapterEntry) -> None:
        """Record it."""
        self._left(entry, "host", "host_budget")
        self.changed(entry)

    def _tell(self, adapter: AdapterId, error: LoradeckError | None) -> None:
        for done in self._waiting.pop(adapter, ()):
            done(error)

    def _left(self, entry: AdapterEntry, tier: Tier, because: LeftBecause) -> None:
        idle_s = self._host.clock.now_s() - entry.last_used_s
        self._event(
            AdapterEvicted(
                at_unix=time.time(), by="policy" if because in {"pages_needed", "host_budget"} else "operator",
                adapter=entry.record.id, alias=entry.alias, tenant=entry.record.tenant, from_tier=tier, because=because, idle_s=idle_s,
            )
        )  # fmt: skip

    def _event(self, event: AdapterLoaded | AdapterLoadFailed | AdapterEvicted) -> None:
        self._host.publisher.record_event(event)


def load_record(entry: AdapterEntry, load: Load, *, median_step_s: float | None, now_s: float) -> LoadRecord:
    """A finished load as operators see it."""
    slowest_s = max(load.steps, default=0.0)
    return LoadRecord(
        adapter=entry.record.id,
        from_tier=load.from_tier,
        asked_s=load.asked_s,
        phases=tuple(load.phases),
        total_s=now_s - load.asked_s,
        evicted=tuple(load.evicted),
        waiters=tuple(load.waiters),
        waited_max_s=now_s - load.asked_s if load.waiters else 0.0,
        others_delay_s=max(0.0, slowest_s - median_step_s) if median_step_s is not None and load.steps else 0.0,
        others_steps=len(load.steps),
    )
