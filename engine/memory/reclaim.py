"""Makes room in the arena: free pages first, then unread prefix pages, then idle adapters."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.ids import AdapterId, TenantId
    from engine.memory.pages import PagePool


class PrefixPages(Protocol):
    """The prefix cache, as a source of pages."""

    @property
    def num_idle(self) -> int:
        """Pages that no sequence reads."""
        ...

    def evict(self, n: int) -> int:
        """Free up to ``n`` idle pages, least recently used first; how many."""
        ...


class IdleAdapter(Protocol):
    """An adapter on the device that nothing holds there."""

    @property
    def adapter(self) -> AdapterId:
        """Which."""
        ...

    @property
    def pages(self) -> int:
        """What it would give back."""
        ...


Candidate = TypeVar("Candidate", bound=IdleAdapter)
Candidate_co = TypeVar("Candidate_co", bound=IdleAdapter, covariant=True)
Candidate_contra = TypeVar("Candidate_contra", bound=IdleAdapter, contravariant=True)


class IdleAdapters(Protocol[Candidate_co]):
    """Residency, as a source of pages."""

    def evictable(self) -> Iterable[Candidate_co]:
        """Adapters that are neither leased, pinned nor loading."""
        ...

    @property
    def num_joined(self) -> int:
        """Changes whenever one came to be among them because its last lease ended or it arrived."""
        ...

    def is_evictable(self, adapter: AdapterId) -> bool:
        """Whether it is one of them."""
        ...

    def evictable_pages(self, *, besides: AdapterId | None = None) -> int:
        """What all of them but one would give back."""
        ...

    def evict_for_room(self, adapters: Iterable[AdapterId], *, by: TenantId | None) -> None:
        """Give their pages back now, to a tenant's request or to nobody's."""
        ...


class Order(Protocol):
    """Who leaves first, as it stood at one moment."""

    def take(self, pages_needed: int, /, *, is_idle: Callable[[AdapterId], bool]) -> Sequence[IdleAdapter]:
        """Choose enough to give so many pages back, of those that still are idle."""
        ...


class Policy(Protocol[Candidate_contra]):
    """Who leaves first."""

    def order(self, candidates: Iterable[Candidate_contra], /) -> Order:
        """All of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Pages that one use may not take from the other."""

    kv: int
    """Adapters leave so many pages to KV."""
    adapter: int
    """KV leaves so many pages to adapters."""


class Reclaimer:
    """Never touches pages that a sequence reads, nor leased or pinned adapters. Owned by the engine thread.

    ``reserve`` answers how many pages KV must leave so that a waiting adapter always comes in once others drain: those of pinned
    adapters and of the largest other one. The adapter floor counts when it is larger.
    """

    def __init__(
        self,
        *,
        pool: PagePool,
        prefix: PrefixPages,
        adapters: IdleAdapters[Candidate],
        policy: Policy[Candidate],
        floors: Floors,
        reserve: Callable[[], int] = lambda: 0,
    ) -> None:
        self.floors = floors
        self._pool = pool
        self._prefix = prefix
        self._adapters: IdleAdapters[IdleAdapter] = adapters
        self._new_order: Callable[[], Order] = lambda: policy.order(adapters.evictable())
        self._order: tuple[int, Order] | None = None
        self._keeps_order = False
        self._reserve = reserve
        self.kv_ceiling = pool.num_pages - floors.adapter

    @contextmanager
    def one_order(self) -> Iterator[None]:
        """Ask who leaves first once, not each time: meanwhile only leases and arrivals may change who is idle, and nobody's claim."""
        self._keeps_order = True
        try:
            yield
        finally:
            self._keeps_order, self._order = False, None

    @property
    def adapter_ceiling(self) -> int:
        """The most pages that adapters can hold together."""
        return self._pool.num_pages - self.floors.kv

    def refresh(self) -> None:
        """Ask ``reserve`` anew, once a plan, since it may have to look at every adapter.

        Sets ``kv_ceiling``: the most pages that sequences can hold together, once all that can leave has left.
        """
        self.kv_ceiling = self._pool.num_pages - max(self.floors.adapter, self._reserve())

    def can_make_kv_room(self, n: int, *, besides: AdapterId | None = None) -> bool:
        """Whether ``make_kv_room(n)`` would succeed, also if ``besides`` were leased first."""
        if self._kv_in_use() + n > self.kv_ceiling:
            return False
        short = n - self._pool.num_free - self._prefix.num_idle
        return short <= 0 or short <= self._adapters.evictable_pages(besides=besides)

    def has_kv_room(self, n: int) -> bool:
        """Whether ``can_make_kv_room(n)``, and no adapter has to leave for it."""
        return self._kv_in_use() + n <= self.kv_ceiling and n <= self._pool.num_free + self._prefix.num_idle

    def make_kv_room(self, n: int, *, by: TenantId | None = None) -> bool:
        """Free pages until ``n`` can be taken for KV, for a tenant's request; False, and nothing changed, when that cannot be."""
        if not self.can_make_kv_room(n):
            return False
        over = self._pool.count("kv") + self._pool.count("prefix") + n - self.kv_ceiling
        self._prefix.evict(max(over, n - self._pool.num_free))
        self._evict_adapters(n - self._pool.num_free, by)
        return True

    def adapter_room(self) -> int:
        """Pages that an adapter could get now."""
        under_floor = self.adapter_ceiling - self._pool.count("adapter")
        return min(self._pool.num_free + self._prefix.num_idle, under_floor) + self._adapters.evictable_pages()

    def make_adapter_room(self, n: int, *, by: TenantId | None = None) -> list[AdapterId] | None:
        """Free pages until ``n`` can be taken for an adapter that a tenant's request waits for: who was evicted.

        None, and nothing changed, when that cannot be.
        """
        if n > self.adapter_room():
            return None
        over = self._pool.count("adapter") + n - self.adapter_ceiling
        self._prefix.evict(n - self._pool.num_free - max(over, 0))
        return self._evict_adapters(max(over, n - self._pool.num_free), by)

    def _kv_in_use(self) -> int:
        return self._pool.count("kv") + self._pool.num_shared

    def _evict_adapters(self, pages: int, by: TenantId | None) -> list[AdapterId]:
        if pages <= 0:
            return []
        joined = self._adapters.num_joined
        if self._order is None or self._order[0] != joined:
            self._order = (joined, self._new_order())
        victims = [victim.adapter for victim in self._order[1].take(pages, is_idle=self._adapters.is_evictable)]
        if not self._keeps_order:
            self._order = None
        self._adapters.evict_for_room(victims, by=by)
        return victims
