"""Room is made from what nobody holds, and never past a floor."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from engine.adapters.eviction import Candidate, EvictionPolicy
from engine.ids import AdapterId, TenantId
from engine.memory.pages import PREFIX_OWNER, PagePool, adapter_owner, kv_owner
from engine.memory.reclaim import Floors, Reclaimer

NUM_PAGES = 40


@dataclass
class IdlePages:
    """A prefix cache that is only a stack of pages."""

    pool: PagePool
    pages: list[int]

    @property
    def num_idle(self) -> int:
        """All of them."""
        return len(self.pages)

    def evict(self, n: int) -> int:
        """From the end."""
        count = min(max(n, 0), len(self.pages))
        self.pool.give_back(self.pages.pop() for _ in range(count))
        return count


@dataclass
class Resident:
    """Adapters on the device; those in ``held`` are leased or pinned."""

    pool: PagePool
    pages: dict[AdapterId, list[int]] = field(default_factory=dict)
    held: set[AdapterId] = field(default_factory=set)
    num_joined: int = 0

    def is_evictable(self, adapter: AdapterId) -> bool:
        """One of the others."""
        return adapter in self.pages and adapter not in self.held

    def evictable(self) -> list[Candidate]:
        """The others."""
        return [
            Candidate(adapter=adapter, pages=len(pages), frequency=1.0, reload_cost=1.0, last_used_s=float(i))
            for i, (adapter, pages) in enumerate(self.pages.items())
            if adapter not in self.held
        ]

    def evictable_pages(self, *, besides: AdapterId | None = None) -> int:
        """Of the others, but one."""
        return sum(candidate.pages for candidate in self.evictable() if candidate.adapter != besides)

    def evict_for_room(self, adapters: list[AdapterId], *, by: TenantId | None) -> None:
        """Give their pages back."""
        del by
        for adapter in adapters:
            assert adapter not in self.held
            self.pool.give_back(self.pages.pop(adapter))


@dataclass
class Arena:
    """A pool in use, and a reclaimer over it."""

    pool: PagePool
    prefix: IdlePages
    resident: Resident
    reclaimer: Reclaimer


def arena(
    *, kv: int = 0, idle: int = 0, sizes: tuple[int, ...] = (), held: tuple[int, ...] = (), floors: tuple[int, int] = (0, 0)
) -> Arena:
    """``kv`` pages of sequences, ``idle`` prefix pages, adapters a0, a1 … of ``sizes`` of which ``held`` stay."""
    pool = PagePool(NUM_PAGES)
    pool.take(kv, owner=kv_owner(1))
    prefix = IdlePages(pool, pool.take(idle, owner=PREFIX_OWNER))
    resident = Resident(pool)
    for i, size in enumerate(sizes):
        resident.pages[AdapterId(f"a{i}")] = pool.take(size, owner=adapter_owner(AdapterId(f"a{i}")))
    resident.held = {AdapterId(f"a{i}") for i in held}
    reclaimer = Reclaimer(
        pool=pool, prefix=prefix, adapters=resident, policy=EvictionPolicy("lru"), floors=Floors(kv=floors[0], adapter=floors[1])
    )
    return Arena(pool, prefix, resident, reclaimer)


@st.composite
def arenas(draw: st.DrawFn) -> Arena:
    """Any use of the pages that the floors allow."""
    floors = (draw(st.integers(0, 15)), draw(st.integers(0, 15)))
    sizes = draw(st.lists(st.integers(1, 6), max_size=5).filter(lambda sizes: sum(sizes) <= NUM_PAGES - floors[0]))
    kv = draw(st.integers(0, min(NUM_PAGES - sum(sizes), NUM_PAGES - floors[1])))
    idle = draw(st.integers(0, NUM_PAGES - sum(sizes) - kv))
    held = draw(st.sets(st.integers(0, 4)))
    return arena(kv=kv, idle=idle, sizes=tuple(sizes), held=tuple(held), floors=floors)


@given(at=arenas(), n=st.integers(0, NUM_PAGES))
def test_kv_room_is_what_was_promised(at: Arena, n: int) -> None:
    """``can_make_kv_room`` tells the truth, ``has_kv_room`` whom it costs; floor and held adapters stand; a refusal changes nothing."""
    before = (at.pool.num_free, at.prefix.num_idle, len(at.resident.pages))
    promised, without_adapters = at.reclaimer.can_make_kv_room(n), at.reclaimer.has_kv_room(n)
    assert at.reclaimer.make_kv_room(n) == promised
    assert without_adapters == (promised and len(at.resident.pages) == before[2])
    at.pool.check()
    if not promised:
        assert before == (at.pool.num_free, at.prefix.num_idle, len(at.resident.pages))
        return
    assert at.pool.can_take(n)
    at.pool.take(n, owner=kv_owner(2))
    assert at.pool.count("kv") + at.pool.count("prefix") <= NUM_PAGES - at.reclaimer.floors.adapter


@given(at=arenas(), n=st.integers(0, NUM_PAGES))
def test_adapter_room_is_what_was_promised(at: Arena, n: int) -> None:
    """``adapter_room`` tells the truth; the KV floor stands; a refusal changes nothing; who was evicted is named."""
    before = (at.pool.num_free, at.prefix.num_idle, set(at.resident.pages))
    room = at.reclaimer.adapter_room()
    evicted = at.reclaimer.make_adapter_room(n)
    at.pool.check()
    assert (evicted is not None) == (n <= room)
    if evicted is None:
        assert before == (at.pool.num_free, at.prefix.num_idle, set(at.resident.pages))
        return
    assert set(evicted) == before[2] - set(at.resident.pages)
    assert at.pool.can_take(n)
    at.pool.take(n, owner=adapter_owner(AdapterId("new")))
    assert at.pool.count("adapter") <= NUM_PAGES - at.reclaimer.floors.kv


def test_free_pages_go_first_then_prefix_then_adapters() -> None:
    """Nothing is evicted that need not be."""
    at = arena(kv=10, idle=5, sizes=(5, 5), floors=(0, 0))
    assert at.reclaimer.make_kv_room(15)
    assert (at.prefix.num_idle, len(at.resident.pages)) == (5, 2)
    assert at.reclaimer.make_kv_room(20)
    assert (at.prefix.num_idle, len(at.resident.pages)) == (0, 2)
    assert at.reclaimer.make_kv_room(21)
    assert list(at.resident.pages) == ["a1"]


def test_kv_leaves_room_for_pinned_adapters_and_one_more() -> None:
    """``reserve`` counts where it is more than the floor, so that a waiting adapter always comes in."""
    at = arena()
    at.reclaimer = Reclaimer(
        pool=at.pool,
        prefix=at.prefix,
        adapters=at.resident,
        policy=EvictionPolicy("lru"),
        floors=Floors(kv=0, adapter=4),
        reserve=lambda: 12,
    )
    at.reclaimer.refresh()
    assert at.reclaimer.kv_ceiling == NUM_PAGES - 12
    assert at.reclaimer.make_kv_room(NUM_PAGES - 12)
    assert not at.reclaimer.make_kv_room(NUM_PAGES - 11)


def test_a_lease_about_to_be_taken_counts() -> None:
    """A request's own adapter is not what makes room for its KV."""
    at = arena(kv=20, sizes=(10,))
    assert at.reclaimer.can_make_kv_room(15)
    assert not at.reclaimer.can_make_kv_room(15, besides=AdapterId("a0"))


def test_one_order_takes_in_who_joins() -> None:
    """While an order is kept, one that is idle again and comes first is the next to leave; one that is leased meanwhile stays."""
    at = arena(sizes=(10, 10, 10, 10), held=(0,))
    with at.reclaimer.one_order():
        assert at.reclaimer.make_adapter_room(10) == ["a1"]
        at.resident.held = {AdapterId("a2")}
        at.resident.num_joined += 1
        at.pool.take(10, owner=kv_owner(2))
        assert at.reclaimer.make_adapter_room(10) == ["a0"]
        at.pool.take(10, owner=kv_owner(2))
        assert at.reclaimer.make_adapter_room(10) == ["a3"]
