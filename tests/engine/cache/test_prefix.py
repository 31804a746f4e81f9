"""Computed pages are shared with those who may have them, and with nobody else."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.cache.prefix import PrefixCache
from engine.ids import AdapterId, RequestId, TenantId
from engine.memory.pages import PagePool, kv_owner
from engine.request import Request
from engine.sequence import Sequence

PAGE_TOKENS = 4
A, B = AdapterId("a"), AdapterId("b")


class Rig:
    """A pool, a cache, and sequences computed in one go."""

    def __init__(self, num_pages: int = 32) -> None:
        self.pool = PagePool(num_pages)
        self.cache = PrefixCache(self.pool, page_tokens=PAGE_TOKENS)
        self.keys = 0

    def start(self, tokens: list[int], *, adapter: AdapterId | None = None, tenant: str = "t", echo: bool = False) -> Sequence:
        """A running sequence that holds its pages, shared ones first, and has computed none of its own."""
        self.keys += 1
        request = Request(id=RequestId(str(self.keys)), model="m", prompt_ids=tuple(tokens), tenant=TenantId(tenant), echo_logprobs=echo)
        sequence = Sequence(
            key=self.keys, request=request, index=0, adapter=adapter, token_ids=list(tokens), num_prompt=len(tokens), arrived_s=0.0
        )
        shared = self.cache.lookup(sequence)
        own = -(-len(tokens) // PAGE_TOKENS) - len(shared)
        sequence.pages = shared + self.pool.take(own, owner=kv_owner(self.keys))
        sequence.num_shared = len(shared)
        sequence.num_computed = sequence.num_cached = len(shared) * PAGE_TOKENS
        return sequence

    def serve(self, tokens: list[int], *, adapter: AdapterId | None = None, tenant: str = "t") -> int:
        """One request from start to end: how many of its tokens were cached."""
        sequence = self.start(tokens, adapter=adapter, tenant=tenant)
        sequence.num_computed = len(tokens)
        self.cache.donate(sequence)
        self.check()
        return sequence.num_cached

    def check(self) -> None:
        """Both proofs."""
        self.pool.check()
        self.cache.check()


PROMPT = list(range(100))


def test_a_prefix_never_crosses_adapters() -> None:
    """B01: in the order A, B, base, A only the second A finds anything, and the base finds only the base's."""
    rig = Rig(num_pages=128)
    assert [rig.serve(PROMPT, adapter=adapter) for adapter in (A, B, None, A)] == [0, 0, 0, 96]
    assert rig.serve(PROMPT) == 96


def test_a_prefix_never_crosses_tenants() -> None:
    """D13: another tenant's probe finds nothing, a repeat of one's own does; names cannot be glued together to match."""
    rig = Rig(num_pages=256)
    assert rig.serve(PROMPT, tenant="t") == 0
    assert rig.serve(PROMPT, tenant="u") == 0
    assert rig.serve(PROMPT, tenant="t") == 96
    assert rig.serve(PROMPT, tenant="t", adapter=AdapterId("uv")) == 0
    assert rig.serve(PROMPT, tenant="tu", adapter=AdapterId("v")) == 0


def test_the_last_token_is_always_computed() -> None:
    """A prompt of whole pages leaves its last page to compute."""
    rig = Rig()
    rig.serve(PROMPT[:8])
    assert rig.serve(PROMPT[:8]) == 4
    assert rig.serve(PROMPT[:9]) == 8


def test_only_whole_pages_of_equal_tokens_match() -> None:
    """One different token early on hides all that follows."""
    rig = Rig()
    rig.serve(PROMPT[:16])
    assert rig.serve([*PROMPT[:7], 999, *PROMPT[8:16]]) == 4
    assert rig.serve([999, *PROMPT[1:16]]) == 0


def test_scoring_a_prompt_uses_no_cache() -> None:
    """Log-probabilities of the prompt need every position computed."""
    rig = Rig()
    rig.serve(PROMPT[:16])
    assert rig.start(PROMPT[:16], echo=True).num_shared == 0


def test_a_request_that_bypasses_the_cache_neither_reads_nor_leaves() -> None:
    """It computes what is there already, publishes nothing while it runs, and its pages are free when it ends."""
    rig = Rig()
    rig.serve(PROMPT[:40])
    free = rig.pool.num_free
    request = Request(id=RequestId("mine"), model="m", prompt_ids=tuple(PROMPT[:60]), tenant=TenantId("t"), prefix_cache="bypass")
    sequence = Sequence(key=99, request=request, index=0, adapter=None, token_ids=PROMPT[:60], num_prompt=60, arrived_s=0.0)
    assert rig.cache.lookup(sequence) == []
    sequence.pages = rig.pool.take(15, owner=kv_owner(99))
    sequence.num_computed = 60
    rig.cache.publish(sequence)
    rig.check()
    assert sequence.num_shared == 0
    rig.cache.donate(sequence)
    rig.check()
    assert rig.pool.num_free == free
    assert rig.serve(PROMPT[:60]) == 40


def test_a_running_sequence_publishes_its_prompt() -> None:
    """Another finds it while the first still runs, and the pages outlive whoever ends first."""
    rig = Rig()
    first = rig.start(PROMPT[:10])
    first.num_computed = 10
    rig.cache.publish(first)
    rig.check()
    second = rig.start(PROMPT[:10])
    assert second.pages[:2] == first.pages[:2]
    assert rig.pool.num_shared == 2
    rig.cache.drop(first)
    rig.check()
    assert rig.pool.num_shared == 2
    rig.cache.drop(second)
    assert (rig.pool.num_shared, rig.cache.num_idle, rig.pool.count("kv")) == (0, 2, 0)


def test_two_that_computed_the_same_keep_one_copy() -> None:
    """Published pages of a running sequence never change; the duplicate is freed at its end."""
    rig = Rig()
    first, second = rig.start(PROMPT[:12]), rig.start(PROMPT[:12])
    pages = list(second.pages)
    for sequence in (first, second):
        sequence.num_computed = 12
        rig.cache.publish(sequence)
        rig.check()
    assert second.pages == pages
    rig.cache.donate(second)
    rig.cache.donate(first)
    rig.check()
    assert rig.pool.count("prefix") == rig.cache.num_idle == 3


def test_what_was_not_computed_is_not_kept() -> None:
    """Only full pages of computed tokens are donated."""
    rig = Rig()
    sequence = rig.start(PROMPT[:12])
    sequence.num_computed = 7
    rig.cache.donate(sequence)
    rig.check()
    assert rig.pool.count("prefix") == 1


def test_eviction_takes_the_oldest_and_the_tail_first() -> None:
    """What stays is always reachable from its first token."""
    rig = Rig()
    rig.serve(PROMPT[:12])
    rig.serve([7] * 12)
    rig.serve(PROMPT[:12])
    assert rig.cache.evict(4) == 4
    rig.check()
    assert rig.serve([7] * 13) == 0
    assert rig.serve(PROMPT[:13]) == 8


@pytest.mark.parametrize("how", ["donate", "drop"])
def test_the_tail_of_a_prompt_goes_before_its_start(how: str) -> None:
    """However its last reader ended."""
    rig = Rig()
    rig.serve(PROMPT[:12])
    reader = rig.start(PROMPT[:13])
    if how == "drop":
        rig.cache.drop(reader)
    else:
        reader.num_computed = 13
        rig.cache.donate(reader)
    rig.cache.evict(1)
    assert rig.start(PROMPT[:13]).num_shared == 2


def test_a_first_prompt_loses_its_tail_first() -> None:
    """Also when nobody read it after it was donated."""
    rig = Rig()
    rig.serve(PROMPT[:12])
    rig.cache.evict(1)
    assert rig.start(PROMPT[:13]).num_shared == 2


def test_eviction_never_takes_what_is_read() -> None:
    """Asked for everything, it frees the idle pages only."""
    rig = Rig()
    rig.serve(PROMPT[:12])
    reader = rig.start(PROMPT[:9])
    assert rig.cache.evict(100) == 1
    rig.check()
    assert rig.pool.readers(reader.pages[0]) == 1


def test_a_dropped_adapter_leaves_nothing_to_find() -> None:
    """Idle pages are freed at once, read ones by their last reader; others' stay."""
    rig = Rig(num_pages=64)
    rig.serve(PROMPT[:12], adapter=A)
    rig.serve(PROMPT[:12], adapter=B)
    reader = rig.start(PROMPT[:9], adapter=A)
    rig.cache.drop_adapter(A)
    rig.check()
    assert rig.pool.count("prefix") == 2 + 3
    assert rig.start(PROMPT[:9], adapter=A).num_shared == 0
    rig.cache.drop(reader)
    rig.check()
    assert rig.pool.count("prefix") == 3
    assert rig.serve(PROMPT[:13], adapter=B) == 12


class CacheMachine(RuleBasedStateMachine):
    """Sequences over few tokens, tenants and adapters, so that they meet; pages remember what was computed into them."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(num_pages=24)
        self.running: list[Sequence] = []
        self.content: dict[int, tuple[object, ...]] = {}

    @rule(
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=14),
        adapter=st.sampled_from([None, A, B]),
        tenant=st.sampled_from(["t", "u"]),
    )
    def start(self, tokens: list[int], adapter: AdapterId | None, tenant: str) -> None:
        """Every shared page holds just what this sequence would compute."""
        short = -(-len(tokens) // PAGE_TOKENS) - self.rig.pool.num_free
        if short > self.rig.cache.num_idle:
            return
        self.rig.cache.evict(short)
        sequence = self.rig.start(tokens, adapter=adapter, tenant=tenant)
        assert sequence.num_cached < len(tokens)
        for i in range(sequence.num_shared):
            assert self.content[sequence.pages[i]] == (tenant, adapter, *tokens[: (i + 1) * PAGE_TOKENS])
        self.running.append(sequence)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), how=st.sampled_from(["publish", "donate", "drop"]))
    def go_on(self, data: st.DataObject, how: str) -> None:
        """Compute some more, then publish, or end."""
        sequence = data.draw(st.sampled_from(self.running))
        sequence.num_computed = data.draw(st.integers(sequence.num_computed, len(sequence.token_ids)))
        for i in range(sequence.num_shared, sequence.num_computed // PAGE_TOKENS):
            tokens = sequence.token_ids[: (i + 1) * PAGE_TOKENS]
            self.content[sequence.pages[i]] = (sequence.tenant, sequence.adapter, *tokens)
        if how != "publish":
            self.running.remove(sequence)
        getattr(self.rig.cache, how)(sequence)

    @rule(n=st.integers(0, 5))
    def evict(self, n: int) -> None:
        """Idle pages go."""
        idle = self.rig.cache.num_idle
        assert self.rig.cache.evict(n) == min(n, idle)

    @rule(adapter=st.sampled_from([A, B]))
    def drop_adapter(self, adapter: AdapterId) -> None:
        """An adapter is unregistered."""
        self.rig.cache.drop_adapter(adapter)

    @invariant()
    def agrees(self) -> None:
        """Nothing leaks: each page is a running sequence's own, or the cache's."""
        self.rig.check()
        own = [page for sequence in self.running for page in sequence.pages[sequence.num_shared :]]
        assert len(own) == len(set(own)) == self.rig.pool.count("kv")


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
