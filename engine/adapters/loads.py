"""Loads, from the first wish to the arrival: read, allocate, copy, probe. Owned by the engine thread; never blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.adapters.entry import Load
from engine.errors import AdapterRefused, LoradeckError
from engine.memory.pages import adapter_owner

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry, HostCopy
    from engine.adapters.loader import CopyDone, Loader, ReadDone
    from engine.adapters.residency import AdapterResidency
    from engine.clock import Clock
    from engine.ids import AdapterId, TenantId, Tier
    from engine.memory.pages import PagePool


class MakeRoom(Protocol):
    """Frees pages for an adapter that a tenant's request waits for: who was evicted, or None when there is no room."""

    def __call__(self, pages: int, /, *, by: TenantId | None) -> list[AdapterId] | None:
        """Do so."""
        ...


class LoadPipeline:
    """Every load under way."""

    def __init__(
        self,
        residency: AdapterResidency,
        *,
        pool: PagePool,
        loader: Loader,
        clock: Clock,
        make_room: MakeRoom,
    ) -> None:
        self.loader = loader
        self._residency = residency
        self._pool = pool
        self._clock = clock
        self._make_room = make_room
        self.under_way: dict[AdapterId, AdapterEntry] = {}
        self._allocating: list[AdapterId] = []
        self._copying: set[AdapterId] = set()

    def is_using_host(self, adapter: AdapterId) -> bool:
        """Whether its host copy is being read or copied from."""
        return adapter in self._copying

    def start(self, entry: AdapterEntry, now_s: float, to_tier: Tier, *, tenant: TenantId | None = None) -> None:
        """Begin, maybe for a tenant's request; it must not be on the device nor under way."""
        adapter = entry.record.id
        copy = self._residency.host.get(adapter)
        from_tier = entry.tier(in_host=copy is not None)
        load = Load(asked_s=now_s, from_tier=from_tier, to_tier=to_tier, stage_since_s=now_s, tenant=tenant)
        entry.load = load
        self.under_way[adapter] = entry
        if copy is None:
            self.loader.read(adapter)
        else:
            self._copying.add(adapter)
            self._allocate(entry, copy, now_s)
        self._residency.listener.changed(entry)

    def on_read(self, done: ReadDone) -> None:
        """An image is in host memory, or could not be read."""
        entry = self._residency.entries.get(done.adapter)
        if entry is None or entry.load is None:
            return
        load = entry.load
        load.add_phase("load queue", load.stage_since_s, done.started_s)
        read_from_s = done.started_s
        if done.fetched_s is not None:
            load.add_phase("download", done.started_s, done.fetched_s, note=f"{entry.record.bytes / 2**20:.1f} MiB")
            entry.away, read_from_s = done.copy is None, done.fetched_s
        if done.copy is None:
            self.fail(entry, done.error or LoradeckError(f"The image of {done.adapter} cannot be read."))
            return
        try:
            self._residency.host.check_fits(done.copy.nbytes)
        except AdapterRefused as refusal:
            self.fail(entry, refusal)
            return
        load.add_phase("read", read_from_s, done.read_s, note=f"disk, {done.copy.nbytes / 2**20:.1f} MiB")
        load.add_phase("verify", done.read_s, done.verified_s, note="digest")
        self._copying.add(done.adapter)
        self._residency.host.put(done.adapter, done.copy)
        self._residency.trim_host()
        if load.to_tier == "host":
            self._copying.discard(done.adapter)
            self.arrive(entry)
            return
        self._allocate(entry, done.copy, self._clock.now_s())

    def on_copied(self, done: CopyDone) -> None:
        """Pages are in the arena, or not: prove the adapter first if it never was, else it is on the device."""
        entry = self._residency.entries[done.adapter]
        load = entry.load
        assert load is not None
        self._copying.discard(done.adapter)
        self._residency.trim_host()
        if done.error is not None:
            self.fail(entry, done.error)
            return
        load.add_phase("copy", load.stage_since_s, done.copied_s, note=f"{len(load.pages)} pages")
        load.arrived_s = self._clock.now_s()
        pages, load.pages = load.pages, []
        self._residency.settle_on_device(entry, pages)
        if entry.probe == "unproven":
            load.stage = "probing"
            self._residency.listener.needs_probe(entry)
            return
        entry.recheck = True
        self.arrive(entry)

    def arrive(self, entry: AdapterEntry) -> None:
        """The load is over; requests may lease it."""
        load, entry.load = entry.load, None
        self.under_way.pop(entry.record.id, None)
        assert load is not None
        self._residency.idle.review(entry)
        self._residency.listener.arrived(entry, load)
        self._residency.listener.changed(entry)

    def fail(self, entry: AdapterEntry, error: LoradeckError) -> None:
        """A load ends without the adapter on the device."""
        load, entry.load = entry.load, None
        self.under_way.pop(entry.record.id, None)
        self._copying.discard(entry.record.id)
        if load is not None and load.pages:
            self._pool.give_back(load.pages)
        self._residency.idle.review(entry)
        self._residency.listener.failed(entry, error)
        self._residency.listener.changed(entry)

    def tick(self, now_s: float) -> None:
        """Try again for loads that wait for pages, first come first: a younger one takes nothing that an older one waits for."""
        waiting, self._allocating = self._allocating, []
        while waiting and not self._allocating:
            adapter = waiting.pop(0)
            entry = self._residency.entries.get(adapter)
            copy = self._residency.host.get(adapter)
            if entry is None or entry.load is None:
                continue
            if copy is None:
                entry.load.stage = "reading"
                self.loader.read(adapter)
            else:
                self._allocate(entry, copy, now_s)
        self._allocating += waiting

    def note_step(self, duration_s: float) -> None:
        """A step ran; loads that were copying meanwhile remember what it took."""
        for adapter in self._copying:
            load = self._residency.entries[adapter].load
            if load is not None and load.stage == "copying":
                load.steps.append(duration_s)

    def _allocate(self, entry: AdapterEntry, copy: HostCopy, now_s: float) -> None:
        load = entry.load
        assert load is not None
        if load.stage != "allocating":
            load.stage, load.stage_since_s = "allocating", now_s
        needed = entry.record.num_pages
        evicted = None if self._allocating else self._make_room(needed, by=load.tenant)
        if evicted is None:
            self._allocating.append(entry.record.id)
            return
        load.evicted.extend(evicted)
        load.pages = self._pool.take(needed, owner=adapter_owner(entry.record.id))
        allocated_s = self._clock.now_s()
        load.add_phase("allocate", load.stage_since_s, allocated_s, note=f"evicted {len(evicted)}" if evicted else "")
        load.stage, load.stage_since_s = "copying", allocated_s
        entry.table = copy.table
        self.loader.copy(entry.record.id, copy, load.pages)
