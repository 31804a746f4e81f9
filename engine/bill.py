"""The sums that a command shows: what it takes, who would leave, and whether pins leave enough. Engine thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import Conflict

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry
    from engine.control import Line, Victim
    from engine.ids import TenantId
    from engine.model_host import ModelHost


def load_bill(host: ModelHost, entry: AdapterEntry, what: str, *, tenant: TenantId | None) -> tuple[tuple[Line, ...], tuple[Victim, ...]]:
    """Free now, who would leave, what it takes, free after. A tenant is told of its own pages on the device, not of the pool."""
    is_there = entry.on_device or entry.load is not None
    needed = 0 if is_there else entry.record.num_pages
    victims = () if is_there else host.victims_for(needed)
    own = victims if tenant is None else tuple(each for each in victims if host.residency.entries[each.id].record.tenant == tenant)
    if tenant is not None:
        held = _held(host, tenant)
        after = held - sum(victim.pages for victim in own) + needed
        gone, comes = (
            tuple((f"Evict {victim.alias}", -victim.pages) for victim in own),
            () if is_there else ((f"{what} {entry.alias}", needed),),
        )
        return (("Yours on the device now", held), *gone, *comes, ("Yours after", after)), own
    free = host.free_pages
    if is_there:
        return (("Free now", free), ("Free after", free)), ()
    return (
        ("Free now", free),
        *((f"Evict {victim.alias}", victim.pages) for victim in victims),
        (f"{what} {entry.alias}", -needed),
        ("Free after", free + sum(victim.pages for victim in victims) - needed),
    ), victims


def floor_rule(host: ModelHost, entry: AdapterEntry) -> tuple[Line, ...]:
    """The rule's sum; Conflict when pins would leave less than one largest adapter beside the KV floor."""
    others = sum(
        other.record.num_pages for other in host.residency.roster.pinned.values() if other is not entry and other.is_pinned_to_device
    )
    pinned = others + entry.record.num_pages
    largest = host.residency.roster.largest_pages
    left = host.usable_pages - pinned - host.kv_floor_pages
    lines = (("Arena", host.usable_pages), ("Pinned after", -pinned), ("KV floor", -host.kv_floor_pages), ("Left", left))
    if left < largest:
        message = (
            f"Not pinned: it needs {entry.record.num_pages} pages, and beside all pins less would be left than the largest adapter needs."
        )
        raise Conflict(
            message, code="pin_would_not_fit", param="ref", expected=largest, found=left, arithmetic=(*lines, ("Needed", largest))
        )
    return lines


def _held(host: ModelHost, tenant: TenantId) -> int:
    """Pages of a tenant's adapters that are on the device, or on their way there."""
    return sum(
        entry.record.num_pages
        for entry in host.residency.entries.values()
        if entry.record.tenant == tenant and (entry.on_device or entry.load is not None)
    )
