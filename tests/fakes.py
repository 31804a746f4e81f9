"""Stand-ins for time and residency, for tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.adapters.eviction import Candidate
from engine.memory.pages import adapter_owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.ids import AdapterId, RequestId, Residency, TenantId, WaitReason
    from engine.memory.pages import PagePool
    from engine.memory.reclaim import Reclaimer


class FakeClock:
    """Moves only when told."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        """Seconds it was moved to."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move on."""
        assert seconds >= 0
        self._now_s += seconds


class ScriptedGate:
    """Residency without weights: a load takes pages when it can have them, and arrives ``load_s`` later at a ``tick``.

    Set ``reclaimer`` before the first ``want``. Loads that wait for pages get them in the order they were asked for.
    """

    reclaimer: Reclaimer

    def __init__(self, *, pool: PagePool, clock: FakeClock, sizes: dict[AdapterId, int], num_slots: int, load_s: float = 0.0) -> None:
        self.sizes = dict(sizes)
        self.load_s = load_s
        self.pinned: set[AdapterId] = set()
        self.leases: dict[AdapterId, int] = {}
        self.evicted: list[AdapterId] = []
        self.num_joined = 0
        self._pool = pool
        self._clock = clock
        self._num_slots = num_slots
        self._slots: dict[AdapterId, int] = {}
        self._pages: dict[AdapterId, list[int]] = {}
        self._loading: dict[AdapterId, float | None] = {}  # when it arrives; None waits for pages
        self._asked_by: dict[AdapterId, TenantId | None] = {}
        self._displaced_by: dict[AdapterId, TenantId | None] = {}
        self._used: dict[AdapterId, tuple[float, float]] = {}  # frequency, last use

    def state(self, adapter: AdapterId) -> Residency:
        """On the device, loading or in host memory."""
        if adapter in self._loading:
            return "loading"
        return "device" if adapter in self._pages else "host"

    def pages(self, adapter: AdapterId) -> int:
        """Its size."""
        return self.sizes[adapter]

    @property
    def resident(self) -> list[AdapterId]:
        """Those that hold pages."""
        return list(self._pages)

    def is_pinned(self, adapter: AdapterId) -> bool:
        """Whether it was put into ``pinned``."""
        return adapter in self.pinned

    def want(self, adapter: AdapterId, now_s: float, *, request: RequestId | None = None, tenant: TenantId | None = None) -> WaitReason:
        """Ask for pages if it has none."""
        del request
        self._asked_by.setdefault(adapter, tenant)
        assert adapter not in self._pages or adapter in self._loading, "wanted though resident"
        if adapter not in self._loading:
            self._loading[adapter] = None
            self._allocate(adapter, now_s)
        return "adapter_pages" if self._loading[adapter] is None else "adapter_loading"

    def tick(self) -> None:
        """Loads that are due arrive; those that wait for pages try again, first come first."""
        now_s = self._clock.now_s()
        for adapter, due_s in list(self._loading.items()):
            if due_s is not None and due_s <= now_s:
                del self._loading[adapter], self._asked_by[adapter]
                self.num_joined += 1
                self._touch(adapter)
        for adapter, due_s in list(self._loading.items()):
            if due_s is None and not self._allocate(adapter, now_s):
                break

    def lease(self, adapter: AdapterId) -> None:
        """One more, in a slot."""
        assert self.state(adapter) == "device", f"{adapter} leased while {self.state(adapter)}"
        if adapter not in self._slots:
            free = set(range(self._num_slots)) - set(self._slots.values())
            assert free, "no slot is free"
            self._slots[adapter] = min(free)
        self.leases[adapter] = self.leases.get(adapter, 0) + 1
        self._touch(adapter)

    def release(self, adapter: AdapterId) -> None:
        """One less."""
        self.leases[adapter] -= 1
        if not self.leases[adapter]:
            del self.leases[adapter], self._slots[adapter]
            self.num_joined += 1

    def slot(self, adapter: AdapterId) -> int:
        """The slot of a leased adapter."""
        return self._slots[adapter]

    def reserve(self) -> int:
        """Pages of pinned adapters and of the largest other one."""
        others = [size for adapter, size in self.sizes.items() if adapter not in self.pinned]
        return sum(self.sizes[adapter] for adapter in self.pinned) + max(others, default=0)

    def evictable(self) -> Iterator[Candidate]:
        """Idle ones on the device."""
        for adapter, pages in self._pages.items():
            if adapter not in self._loading and adapter not in self.leases and adapter not in self.pinned:
                frequency, last_used_s = self._used[adapter]
                yield Candidate(adapter=adapter, pages=len(pages), frequency=frequency, reload_cost=1.0, last_used_s=last_used_s)

    def is_evictable(self, adapter: AdapterId) -> bool:
        """Idle and on the device."""
        return adapter in self._pages and not {adapter} & {*self._loading, *self.leases, *self.pinned}

    def evictable_pages(self, *, besides: AdapterId | None = None) -> int:
        """Of idle ones, but one."""
        held = {*self._loading, *self.leases, *self.pinned, besides}
        return sum(len(pages) for adapter, pages in self._pages.items() if adapter not in held)

    def displaced_by(self, adapter: AdapterId) -> TenantId | None:
        """Who needed its pages last."""
        return self._displaced_by.get(adapter)

    def evict_for_room(self, adapters: Iterable[AdapterId], *, by: TenantId | None) -> None:
        """Give their pages back."""
        for adapter in adapters:
            assert adapter not in self.leases, f"{adapter} evicted while leased"
            assert adapter not in self.pinned, f"{adapter} evicted while pinned"
            self._pool.give_back(self._pages.pop(adapter))
            self.evicted.append(adapter)
            self._displaced_by[adapter] = by

    def check(self) -> None:
        """Its pages are the pool's adapter pages."""
        owned = {page: adapter for adapter, pages in self._pages.items() for page in pages}
        assert len(owned) == self._pool.count("adapter")
        assert all(self._pool.owner(page) == adapter_owner(adapter) for page, adapter in owned.items())

    def _allocate(self, adapter: AdapterId, now_s: float) -> bool:
        if self.reclaimer.make_adapter_room(self.sizes[adapter], by=self._asked_by[adapter]) is None:
            return False
        self._pages[adapter] = self._pool.take(self.sizes[adapter], owner=adapter_owner(adapter))
        self._loading[adapter] = now_s + self.load_s
        return True

    def _touch(self, adapter: AdapterId) -> None:
        frequency, _ = self._used.get(adapter, (0.0, 0.0))
        self._used[adapter] = (frequency + 1.0, self._clock.now_s())
