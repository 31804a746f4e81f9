"""Who owns which page of the arena."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ids import AdapterId

PageKind = Literal["kv", "prefix", "adapter"]


class PageOwner(NamedTuple):
    """One sequence's KV, the prefix cache or one adapter. Pinned, leased or cached is residency's to say. A tuple: a step makes dozens."""

    kind: PageKind
    name: str | int


PREFIX_OWNER = PageOwner(kind="prefix", name="prefix")


def kv_owner(sequence_key: int) -> PageOwner:
    """The owner of the pages that only one sequence uses."""
    return PageOwner(kind="kv", name=sequence_key)


def adapter_owner(adapter: AdapterId) -> PageOwner:
    """The owner of one resident or loading adapter's pages."""
    return PageOwner(kind="adapter", name=adapter)


class PagePool:
    """Page ids ``0 .. num_pages - 1``: each is free or has one owner. Owned by the engine thread.

    Prefix pages carry a count of the sequences that read them. Lowest ids go out first, so runs tend to be contiguous.
    """

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._free = list(range(num_pages))  # a heap
        self._owners: list[PageOwner | None] = [None] * num_pages
        self._counts: dict[PageKind, int] = dict.fromkeys(get_args(PageKind), 0)
        self._readers: dict[int, int] = {}
        self._written = bytearray(num_pages)
        self._unwiped: set[int] = set()

    @property
    def num_free(self) -> int:
        """Pages without an owner."""
        return len(self._free)

    @property
    def num_shared(self) -> int:
        """Prefix pages that at least one sequence reads."""
        return len(self._readers)

    def count(self, kind: PageKind) -> int:
        """Pages owned by that kind."""
        return self._counts[kind]

    def owner(self, page: int) -> PageOwner | None:
        """Whose it is; None is free."""
        return self._owners[page]

    def can_take(self, n: int) -> bool:
        """Whether ``take(n)`` would succeed."""
        return n <= len(self._free)

    def take(self, n: int, *, owner: PageOwner) -> list[int]:
        """The ``n`` lowest free pages, now ``owner``'s. Ask ``can_take`` first."""
        assert self.can_take(n), f"{n} pages asked, {len(self._free)} free"
        pages = [heapq.heappop(self._free) for _ in range(n)]
        for page in pages:
            self._owners[page] = owner
            if self._written[page] and owner.kind == "kv":
                self._unwiped.add(page)
            self._written[page] = 1
        self._counts[owner.kind] += n
        return pages

    def give_back(self, pages: Iterable[int]) -> None:
        """Free pages that nobody reads."""
        for page in pages:
            owner = self._owners[page]
            assert owner is not None, f"page {page} given back twice"
            assert page not in self._readers, f"page {page} given back while it is read"
            self._owners[page] = None
            self._counts[owner.kind] -= 1
            self._unwiped.discard(page)
            heapq.heappush(self._free, page)

    def hand_over(self, pages: Iterable[int], *, owner: PageOwner) -> None:
        """Change the owner of pages and keep what is in them."""
        for page in pages:
            before = self._owners[page]
            assert before is not None, f"page {page} is free"
            self._counts[before.kind] -= 1
            self._counts[owner.kind] += 1
            self._owners[page] = owner

    def share(self, pages: Iterable[int]) -> None:
        """Count one more reader of each of these prefix pages."""
        for page in pages:
            assert self._owners[page] == PREFIX_OWNER, f"page {page} is not the prefix cache's"
            self._readers[page] = self._readers.get(page, 0) + 1

    def unshare(self, pages: Iterable[int]) -> list[int]:
        """Count one reader less of each; those that nobody reads now, in the order given."""
        unread = []
        for page in pages:
            self._readers[page] -= 1
            if not self._readers[page]:
                del self._readers[page]
                unread.append(page)
        return unread

    def readers(self, page: int) -> int:
        """Sequences that read a prefix page."""
        return self._readers.get(page, 0)

    def take_unwiped(self) -> list[int]:
        """KV pages that hold a former owner's bytes, each named once: zero them before the next forward pass."""
        pages = sorted(self._unwiped)
        self._unwiped.clear()
        return pages

    def check(self) -> None:
        """Prove that every page is free or owned, exactly once."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        assert free == {page for page, owner in enumerate(self._owners) if owner is None}, "free list and owners disagree"
        for kind, count in self._counts.items():
            owned = sum(owner is not None and owner.kind == kind for owner in self._owners)
            assert owned == count, f"{kind}: counted {count}, owned {owned}"
        for page, readers in self._readers.items():
            assert readers > 0, f"page {page} has {readers} readers"
            assert self._owners[page] == PREFIX_OWNER, f"page {page} is read and not the prefix cache's"
        assert not self._unwiped & free, "a free page waits to be wiped"
