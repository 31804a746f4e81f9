"""The parts of memory sum to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.memory.ledger import DeviceBytes, LedgerFacts, PageCounts, account

small = st.integers(0, 50)


@st.composite
def page_counts(draw: st.DrawFn) -> PageCounts:
    """Any counts that a pool and residency can have."""
    pinned, leased, cached, kv, shared, idle, free = (draw(small) for _ in range(7))
    num_pages = pinned + leased + cached + kv + shared + idle + free
    return PageCounts(
        page_bytes=draw(st.sampled_from([256, 1536, 2**21])),
        num_pages=num_pages,
        kv=kv,
        prefix=shared + idle,
        shared=shared,
        adapter=pinned + leased + cached,
        pinned=pinned,
        leased=leased,
        kv_floor=draw(st.integers(0, num_pages)),
    )


@given(
    pages=page_counts(),
    base=st.integers(0, 10**9),
    slack=st.integers(0, 10**7),
    workspace=st.integers(0, 10**8),
    other=st.integers(0, 10**8),
)
def test_parts_sum_to_the_total(pages: PageCounts, base: int, slack: int, workspace: int, other: int) -> None:
    """For any counts, and whatever was measured for workspace and others, no part is negative and nothing is lost."""
    total = base + pages.num_pages * pages.page_bytes + slack
    memory = account(DeviceBytes(total=total, base=base, workspace=workspace, other=other), pages, LedgerFacts())
    assert sum(memory.parts.values()) == memory.total_bytes == total
    assert all(part >= 0 for part in memory.parts.values())


@given(pages=page_counts())
def test_each_use_is_where_it_belongs(pages: PageCounts) -> None:
    """A shared prefix page is in use; the floor's unused part is out of free."""
    total = pages.num_pages * pages.page_bytes
    memory = account(DeviceBytes(total=total, base=0), pages, LedgerFacts())
    assert memory.kv_used_bytes == (pages.kv + pages.shared) * pages.page_bytes
    assert memory.free_bytes == memory.free_pages * pages.page_bytes
    assert memory.free_pages == pages.free - pages.reserved
    if pages.kv + pages.prefix >= pages.kv_floor:
        assert memory.kv_reserved_bytes == 0


def test_measured_parts_give_way_to_certain_ones() -> None:
    """NVML and torch answer at different moments: others are cut before workspace, base and arena never."""
    pages = PageCounts(page_bytes=100, num_pages=3)
    memory = account(DeviceBytes(total=1000, base=600, workspace=80, other=50), pages, LedgerFacts())
    assert (memory.workspace_bytes, memory.other_bytes, memory.free_bytes) == (80, 20, 300)


def test_an_overdrawn_device_is_our_bug() -> None:
    """The arena was made too large: say by how much."""
    with pytest.raises(AssertionError, match="50 bytes"):
        account(DeviceBytes(total=1000, base=750), PageCounts(page_bytes=100, num_pages=3), LedgerFacts())
