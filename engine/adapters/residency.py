"""Which adapter is where: leases, loads, evictions. Owned by the engine thread; never blocks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from engine.adapters.entry import AdapterEntry
from engine.adapters.idle import IdleSet
from engine.adapters.listener import ResidencyListener
from engine.adapters.roster import Roster
from engine.adapters.tiers import HostTier
from engine.errors import AdapterNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.adapters.eviction import Candidate
    from engine.adapters.listener import LeftBecause
    from engine.adapters.loads import LoadPipeline
    from engine.adapters.table import AdapterTable
    from engine.adapters.tiers import DiskTier
    from engine.clock import Clock
    from engine.desired import Pin
    from engine.ids import AdapterId, RequestId, Residency, TenantId, Tier, WaitReason
    from engine.memory.pages import PagePool
    from engine.version import VersionRecord


class AdapterResidency:
    """Every registered version's state, and the only code that moves one between tiers.

    Implements the scheduler's ``AdapterGate``. ``listener`` hears of arrivals, failures and departures.
    """

    def __init__(
        self,
        *,
        pool: PagePool,
        table: AdapterTable,
        disk: DiskTier,
        host_budget_bytes: int,
        clock: Clock,
    ) -> None:
        self.entries: dict[AdapterId, AdapterEntry] = {}
        self.roster = Roster()
        self.resident: dict[AdapterId, AdapterEntry] = {}
        self.idle = IdleSet()
        self.table = table
        self.disk = disk
        self.host = HostTier(budget_bytes=host_budget_bytes, may_leave=self._may_leave_host)
        self._pool = pool
        self._clock = clock
        self.listener = ResidencyListener()
        self.loads: LoadPipeline
        """Set by whoever owns the loader and the reclaimer."""

    # What the scheduler asks

    def state(self, adapter: AdapterId) -> Residency:
        """Where it is; raises AdapterNotFound for one that is not registered."""
        entry = self.entry(adapter)
        return entry.residency(in_host=not entry.on_device and adapter in self.host)

    def entry(self, adapter: AdapterId) -> AdapterEntry:
        """The live entry; raises AdapterNotFound."""
        found = self.entries.get(adapter)
        if found is None:
            message = f"No adapter {adapter} is registered."
            raise AdapterNotFound(message, param="ref", found=adapter)
        return found

    def pages(self, adapter: AdapterId) -> int:
        """Arena pages it needs or holds."""
        return self.entry(adapter).record.num_pages

    def want(
        self,
        adapter: AdapterId,
        now_s: float,
        *,
        request: RequestId | None = None,
        tenant: TenantId | None = None,
        to_tier: Tier = "device",
    ) -> WaitReason:
        """Start bringing it to a tier, or go on; answers what a request of the tenant for it waits for."""
        entry = self.entry(adapter)
        if entry.load is None and not entry.on_device:
            self.loads.start(entry, now_s, to_tier, tenant=tenant)
        return "draining" if entry.load is None else entry.load.join(request, tenant, to_tier)

    def lease(self, adapter: AdapterId) -> None:
        """A sequence of it enters the batch; it must be on the device and a slot free, or already held."""
        entry = self.entry(adapter)
        assert entry.on_device
        if entry.slot is None:
            assert entry.table is not None
            entry.slot = self.table.install(entry.table, entry.pages)
        entry.leases += 1
        entry.unused = False
        self.idle.review(entry)
        entry.touch(self._clock.now_s())
        self.listener.changed(entry)

    def release(self, adapter: AdapterId) -> None:
        """A sequence of it left the batch; the last one gives the slot back and lets a waiting eviction through."""
        entry = self.entry(adapter)
        assert entry.leases > 0
        entry.leases -= 1
        if entry.leases == 0 and entry.slot is not None:
            self.table.remove(entry.slot)
            entry.slot = None
            self.idle.review(entry)
        if entry.leases == 0 and entry.leave_to is not None:
            self.leave_device(entry, because="retired" if entry.retired else "operator")
        self.listener.changed(entry)

    def slot(self, adapter: AdapterId) -> int:
        """The table slot of a leased adapter."""
        slot = self.entries[adapter].slot
        assert slot is not None
        return slot

    def is_pinned(self, adapter: AdapterId) -> bool:
        """Whether its pages stay on the device when nothing runs with it."""
        return self.entry(adapter).is_pinned_to_device

    def displaced_by(self, adapter: AdapterId) -> TenantId | None:
        """Whose requests needed its pages when it last left the device; None: it left for nobody's, or was never there."""
        return self.entry(adapter).displaced_by

    def reserve(self) -> int:
        """Pages that KV must leave so that every adapter can come in: the pinned ones and the largest other. Any thread."""
        return self.roster.reserve_pages

    def evictable(self) -> list[Candidate]:
        """Idle adapters on the device that no lease, no pin and no move of a name holds."""
        return self.idle.candidates(self._clock.now_s(), self.host.adapters)

    @property
    def num_joined(self) -> int:
        """Times that one came to be among them."""
        return self.idle.num_joined

    def is_evictable(self, adapter: AdapterId) -> bool:
        """Whether it is one of them."""
        return adapter in self.idle

    def evictable_pages(self, *, besides: AdapterId | None = None) -> int:
        """Pages of those that are evictable, but one."""
        return self.idle.num_pages - self.idle.pages_of(besides)

    def evict_for_room(self, adapters: Iterable[AdapterId], *, by: TenantId | None = None) -> None:
        """Take these off the device to make room for a tenant's request; each must be evictable."""
        for adapter in adapters:
            self.leave_device(self.entry(adapter), because="pages_needed", by=by)

    # What the loop tells

    def add(self, record: VersionRecord) -> AdapterEntry:
        """Register a version, or find it again; what was said of it last counts."""
        entry = self.entries.get(record.id)
        if entry is None:
            entry = self.entries[record.id] = AdapterEntry(record=record)
        else:
            self.roster.count(entry.record, -1)
        self.roster.count(record, 1)
        fingerprint = entry.record.fingerprint or record.fingerprint
        entry.record = record if fingerprint == record.fingerprint else dataclasses.replace(record, fingerprint=fingerprint)
        entry.retired = False
        if record.fingerprint and entry.probe == "unproven":
            entry.probe = "ok"
        return entry

    def set_pin(self, entry: AdapterEntry, pin: Pin | None) -> None:
        """From now on this one, or none."""
        entry.pin = pin
        self.roster.repinned(entry)
        self.idle.review(entry)
        self.listener.changed(entry)

    def settle_on_device(self, entry: AdapterEntry, pages: list[int]) -> None:
        """Its weights are in these pages."""
        entry.pages = pages
        entry.on_device = entry.unused = True
        self.resident[entry.record.id] = entry
        self.idle.review(entry)
        entry.touch(self._clock.now_s())

    def remove(self, adapter: AdapterId) -> None:
        """Forget a version that no sequence uses, and its weights on the device and in host memory."""
        entry = self.entries[adapter]
        assert entry.users == 0
        assert entry.load is None
        if entry.on_device:
            self.leave_device(entry, because="retired")
        self.host.drop(adapter)
        del self.entries[adapter]
        self.set_pin(entry, None)
        self.roster.count(entry.record, -1)

    def leave_device(self, entry: AdapterEntry, *, because: LeftBecause, by: TenantId | None = None) -> None:
        """Free its arena pages now, maybe for a tenant's request; it must have no lease."""
        assert entry.leases == 0
        assert entry.load is None or entry.load.stage == "probing"
        self.idle.leave(entry)
        pages, entry.pages = entry.pages, []
        self._pool.give_back(pages)
        entry.on_device, entry.displaced_by = False, by
        del self.resident[entry.record.id]
        wanted, entry.leave_to = entry.leave_to, None
        if wanted == "disk":
            self.host.drop(entry.record.id)
        self.listener.left_device(entry, because)
        self.listener.changed(entry)
        if because == "pages_needed" and entry.pin is not None and entry.record.id not in self.host:
            self.loads.start(entry, self._clock.now_s(), "host")  # pinned to host, and its copy had left for the budget

    def mark_away(self, entry: AdapterEntry, *, away: bool) -> None:
        """Its image was sent to an origin, or is on disk again; it must be neither near nor on its way."""
        assert not (away and (entry.on_device or entry.load is not None or entry.record.id in self.host))
        entry.away = away
        self.listener.changed(entry)

    def holders(self) -> Iterator[AdapterEntry]:
        """Every version that has pages of the arena, or is on its way to some."""
        yield from self.resident.values()
        yield from (entry for adapter, entry in self.loads.under_way.items() if adapter not in self.resident)

    def check(self) -> None:
        """Counts agree with the pool and with those that hold pages; what lies idle has none, and is not looked at."""
        self.host.check()
        self.table.check()
        held = list(self.holders())
        assert sum(len(entry.pages) + (len(entry.load.pages) if entry.load else 0) for entry in held) == self._pool.count("adapter")
        leased = {entry.slot for entry in held if entry.leases}
        assert len(leased - {None}) == len(leased) == self.table.num_slots - self.table.num_free
        self.idle.check(self.resident.values())
        for entry in held:
            assert bool(entry.pages) == entry.on_device == (entry.record.id in self.resident), entry.record.id

    def trim_host(self) -> None:
        """Bring the host tier back under its budget."""
        for left in self.host.trim():
            self.listener.left_host(self.entries[left])

    def _may_leave_host(self, adapter: AdapterId) -> bool:
        entry = self.entries.get(adapter)
        held = entry is not None and (entry.holds > 0 or (entry.pin is not None and entry.pin.tier == "host"))
        return not self.loads.is_using_host(adapter) and not held
