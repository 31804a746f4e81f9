"""Every byte of the device, once."""

from __future__ import annotations

from dataclasses import dataclass

from engine.snapshot import MemorySnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBytes:
    """What is on the device beside the arena, as measured or budgeted."""

    total: int
    base: int
    workspace: int = 0
    """Activations and graphs."""
    other: int = 0
    """Other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCounts:
    """The arena's pages by use; ``PagePool`` counts all but pinned and leased, which residency knows."""

    page_bytes: int
    num_pages: int
    kv: int = 0
    """Owned by sequences."""
    prefix: int = 0
    """Owned by the prefix cache, shared ones included."""
    shared: int = 0
    """Prefix pages that a sequence reads: KV in use."""
    adapter: int = 0
    pinned: int = 0
    leased: int = 0
    """Of adapters that run or load and are not pinned."""
    kv_floor: int = 0

    @property
    def free(self) -> int:
        """Pages without an owner."""
        return self.num_pages - self.kv - self.prefix - self.adapter

    @property
    def reserved(self) -> int:
        """Free pages that adapters may not take: what the KV floor still lacks."""
        return min(self.free, max(0, self.kv_floor - self.kv - self.prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the snapshot's memory shows and the sum does not need."""

    host_used_bytes: int = 0
    host_budget_bytes: int = 0
    disk_used_bytes: int = 0
    adapters_pinned: int = 0
    adapters_leased: int = 0
    adapters_cached: int = 0
    kv_used_tokens: int = 0
    kv_prefix_tokens: int = 0


def account(device: DeviceBytes, pages: PageCounts, facts: LedgerFacts) -> MemorySnapshot:
    """The parts of the device, which sum to ``device.total`` exactly.

    ``base`` and the arena are certain. ``workspace`` and ``other`` are measured at another moment, so where they would overdraw the
    total they are cut, ``other`` first. What is left outside the arena is free. Cached adapters are those neither pinned nor leased.
    """
    outside = device.total - device.base - pages.num_pages * pages.page_bytes
    assert outside >= 0, f"base and arena overdraw the device by {-outside} bytes"
    workspace = min(device.workspace, outside)
    other = min(device.other, outside - workspace)
    free_pages = pages.free - pages.reserved
    return MemorySnapshot(
        total_bytes=device.total,
        base_bytes=device.base,
        adapters_pinned_bytes=pages.pinned * pages.page_bytes,
        adapters_leased_bytes=pages.leased * pages.page_bytes,
        adapters_cached_bytes=(pages.adapter - pages.pinned - pages.leased) * pages.page_bytes,
        kv_used_bytes=(pages.kv + pages.shared) * pages.page_bytes,
        kv_prefix_bytes=(pages.prefix - pages.shared) * pages.page_bytes,
        kv_reserved_bytes=pages.reserved * pages.page_bytes,
        workspace_bytes=workspace,
        free_bytes=free_pages * pages.page_bytes + outside - workspace - other,
        other_bytes=other,
        page_bytes=pages.page_bytes,
        arena_pages=pages.num_pages,
        free_pages=free_pages,
        kv_floor_pages=pages.kv_floor,
        pinned_pages=pages.pinned,
        host_used_bytes=facts.host_used_bytes,
        host_budget_bytes=facts.host_budget_bytes,
        disk_used_bytes=facts.disk_used_bytes,
        adapters_pinned=facts.adapters_pinned,
        adapters_leased=facts.adapters_leased,
        adapters_cached=facts.adapters_cached,
        kv_used_tokens=facts.kv_used_tokens,
        kv_prefix_tokens=facts.kv_prefix_tokens,
    )
