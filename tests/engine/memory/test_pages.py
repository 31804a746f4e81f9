"""Every page has one owner or none, whatever is done."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.ids import AdapterId
from engine.memory.pages import PREFIX_OWNER, PageOwner, PagePool, adapter_owner, kv_owner

NUM_PAGES = 12
OWNERS = [kv_owner(1), kv_owner(2), adapter_owner(AdapterId("a"))]


class PoolMachine(RuleBasedStateMachine):
    """Takes, hands over, shares and gives back at random, beside a plain dictionary that must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(NUM_PAGES)
        self.owned: dict[int, PageOwner] = {}
        self.readers: dict[int, int] = {}

    @rule(n=st.integers(0, 5), owner=st.sampled_from(OWNERS))
    def take(self, n: int, owner: PageOwner) -> None:
        """The lowest free ids go out."""
        if not self.pool.can_take(n):
            assert n > NUM_PAGES - len(self.owned)
            return
        expected = sorted(set(range(NUM_PAGES)) - set(self.owned))[:n]
        assert self.pool.take(n, owner=owner) == expected
        self.owned |= dict.fromkeys(expected, owner)

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """A page that nobody reads is free again."""
        page = data.draw(st.sampled_from(sorted(self.owned)))
        if page not in self.readers:
            self.pool.give_back([page])
            del self.owned[page]

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        """A page of the prefix cache gains a reader; a sequence's page becomes the cache's."""
        page = data.draw(st.sampled_from(sorted(self.owned)))
        if self.owned[page].kind == "kv":
            self.pool.hand_over([page], owner=PREFIX_OWNER)
            self.owned[page] = PREFIX_OWNER
        elif self.owned[page] == PREFIX_OWNER:
            self.pool.share([page])
            self.readers[page] = self.readers.get(page, 0) + 1

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def unshare(self, data: st.DataObject) -> None:
        """The last reader leaves the page unread."""
        page = data.draw(st.sampled_from(sorted(self.readers)))
        self.readers[page] -= 1
        assert self.pool.unshare([page]) == ([] if self.readers[page] else [page])
        self.readers = {page: count for page, count in self.readers.items() if count}

    @invariant()
    def agrees(self) -> None:
        """The pool's own proof holds, and its counts are those of the dictionary."""
        self.pool.check()
        assert self.pool.num_free == NUM_PAGES - len(self.owned)
        assert self.pool.num_shared == len(self.readers)
        for kind in ("kv", "prefix", "adapter"):
            assert self.pool.count(kind) == sum(owner.kind == kind for owner in self.owned.values())
        assert all(self.pool.owner(page) == self.owned.get(page) for page in range(NUM_PAGES))


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_page_of_a_former_owner_is_wiped_before_kv_uses_it() -> None:
    """B03: a page is named for wiping when a sequence takes it after anyone else, once, and not when it was never written."""
    pool = PagePool(3)
    first = pool.take(2, owner=adapter_owner(AdapterId("a")))
    pool.give_back(first)
    assert pool.take(3, owner=kv_owner(1)) == [0, 1, 2]
    assert pool.take_unwiped() == [0, 1]
    assert pool.take_unwiped() == []


def test_a_page_given_back_before_its_wipe_is_not_wiped_under_its_next_owner() -> None:
    """Wiping late must not clear an adapter that was loaded into the page meanwhile."""
    pool = PagePool(1)
    pool.give_back(pool.take(1, owner=kv_owner(1)))
    pool.give_back(pool.take(1, owner=kv_owner(2)))
    pool.take(1, owner=adapter_owner(AdapterId("a")))
    assert pool.take_unwiped() == []


def test_giving_back_twice_is_our_bug() -> None:
    """A double free is caught where it happens."""
    pool = PagePool(2)
    pages = pool.take(1, owner=kv_owner(1))
    pool.give_back(pages)
    with pytest.raises(AssertionError, match="twice"):
        pool.give_back(pages)


def test_a_page_that_is_read_cannot_be_freed() -> None:
    """A shared page outlives whoever computed it."""
    pool = PagePool(2)
    pages = pool.take(1, owner=kv_owner(1))
    pool.hand_over(pages, owner=PREFIX_OWNER)
    pool.share(pages)
    with pytest.raises(AssertionError, match="read"):
        pool.give_back(pages)
