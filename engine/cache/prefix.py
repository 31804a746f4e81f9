"""Pages of tokens already computed, shared by sequences of the same tenant and adapter that start alike."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from engine.memory.pages import PREFIX_OWNER

if TYPE_CHECKING:
    from engine.ids import AdapterId
    from engine.memory.pages import PagePool
    from engine.sequence import Sequence


class Block(NamedTuple):
    """One full page of tokens. ``digest`` covers tenant, adapter and every token from the first to this page's last.

    A tuple: a step makes dozens.
    """

    page: int
    digest: bytes
    adapter: AdapterId | None


class PrefixCache:
    """Finds, shares and keeps computed pages. Owned by the engine thread.

    A sequence reads the first ``num_shared`` of its pages and owns the others. A page is never read without the ones before it, so the
    least recently used idle page is never needed by one that stays.
    """

    def __init__(self, pool: PagePool, *, page_tokens: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._blocks: dict[bytes, Block] = {}
        self._by_page: dict[int, Block] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._dropped: set[int] = set()  # read still, never found again

    @property
    def num_idle(self) -> int:
        """Pages that no sequence reads: they can be freed at once."""
        return len(self._idle)

    def lookup(self, sequence: Sequence) -> list[int]:
        """Pages that hold the sequence's first tokens, with a reference taken on each; give them back with ``release``.

        At least its last token is left to compute. Empty where log-probabilities of the prompt are wanted, or the cache is bypassed.
        """
        if sequence.request.echo_logprobs or bypasses(sequence):
            return []
        pages = []
        for digest in self._digests(sequence, (sequence.num_tokens - 1) // self._page_tokens):
            block = self._blocks.get(digest)
            if block is None:
                break
            pages.append(block.page)
        self._pool.share(pages)
        for page in pages:
            self._idle.pop(page, None)
        return pages

    def release(self, pages: list[int]) -> None:
        """Give references back, in the order of ``lookup``; pages that nobody reads now are idle."""
        for page in reversed(self._pool.unshare(pages)):
            if page in self._dropped:
                self._dropped.remove(page)
                self._pool.give_back([page])
            else:
                self._idle[page] = None

    def publish(self, sequence: Sequence) -> None:
        """Let others find the full pages that a running sequence has computed; it reads them from now on.

        Stops at a page that another sequence published first: a running sequence's page ids never change.
        """
        if bypasses(sequence):
            return
        full = sequence.num_computed // self._page_tokens
        for i, digest in enumerate(self._digests(sequence, full)[sequence.num_shared :], start=sequence.num_shared):
            if digest in self._blocks:
                return
            self._add(sequence, i, digest)
            self._pool.share([sequence.pages[i]])
            sequence.num_shared += 1

    def donate(self, sequence: Sequence) -> None:
        """Take over a finished sequence's full computed pages, and free the rest. It holds none afterwards."""
        if bypasses(sequence):
            self.drop(sequence)
            return
        digests = self._digests(sequence, sequence.num_computed // self._page_tokens)
        for i, digest in enumerate(digests[sequence.num_shared :], start=sequence.num_shared):
            if digest not in self._blocks:
                self._add(sequence, i, digest)
                self._idle[sequence.pages[i]] = None
        self.drop(sequence)
        for digest in reversed(digests):
            block = self._blocks.get(digest)
            if block is not None and block.page in self._idle:
                self._idle.move_to_end(block.page)

    def drop(self, sequence: Sequence) -> None:
        """Free what only this sequence holds and give its references back. It holds no page afterwards."""
        own = sequence.pages[sequence.num_shared :]
        self._pool.give_back(page for page in own if page not in self._by_page)
        self.release(sequence.pages[: sequence.num_shared])
        sequence.pages = []
        sequence.num_shared = 0

    def evict(self, n: int) -> int:
        """Free up to ``n`` idle pages, least recently used first; how many."""
        count = min(max(n, 0), len(self._idle))
        for _ in range(count):
            page, _ = self._idle.popitem(last=False)
            self._forget(self._by_page[page])
            self._pool.give_back([page])
        return count

    def drop_adapter(self, adapter: AdapterId) -> None:
        """Forget all that was computed with an adapter; pages still read are freed by their last reader."""
        for block in [block for block in self._blocks.values() if block.adapter == adapter]:
            self._forget(block)
            if block.page in self._idle:
                del self._idle[block.page]
                self._pool.give_back([block.page])
            else:
                self._dropped.add(block.page)

    def check(self) -> None:
        """Prove that every prefix page is found by one digest or being read for the last time, and idle just when unread."""
        assert {block.page for block in self._blocks.values()} == set(self._by_page), "digests and pages disagree"
        assert not self._dropped & set(self._by_page), "a dropped page can be found"
        assert self._pool.count("prefix") == len(self._by_page) + len(self._dropped), "prefix pages leaked"
        unread = {page for page in self._by_page if not self._pool.readers(page)}
        assert unread == set(self._idle), "idle pages and readers disagree"
        assert all(self._pool.readers(page) for page in self._dropped), "a dropped page has no reader"

    def _add(self, sequence: Sequence, i: int, digest: bytes) -> None:
        page = sequence.pages[i]
        self._pool.hand_over([page], owner=PREFIX_OWNER)
        self._blocks[digest] = self._by_page[page] = Block(page=page, digest=digest, adapter=sequence.adapter)

    def _forget(self, block: Block) -> None:
        del self._blocks[block.digest]
        del self._by_page[block.page]

    def _digests(self, sequence: Sequence, num_pages: int) -> list[bytes]:
        """Of its first full pages; each is computed once, since tokens are only ever appended."""
        known = sequence.digests
        for i in range(len(known), num_pages):
            before = known[-1] if known else hashlib.blake2b(repr((sequence.tenant, sequence.adapter)).encode(), digest_size=16).digest()
            tokens = array("q", sequence.token_ids[i * self._page_tokens : (i + 1) * self._page_tokens])
            known.append(hashlib.blake2b(before + tokens.tobytes(), digest_size=16).digest())
        return known[:num_pages]


def bypasses(sequence: Sequence) -> bool:
    """Whether it neither reads what others computed nor leaves what it computes."""
    return sequence.request.prefix_cache == "bypass"
