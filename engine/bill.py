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
    """Free now, who would leave, what it takes, free after. A tenant is told of its own adapters, and of others' one sum."""
    free = host.free_pages
    if entry.on_device or entry.load is not None:
        return (("Free now", free), ("Free after", free)), ()
    needed = entry.record.num_pages
    victims = host.victims_for(needed)
    leaving = sum(victim.pages for victim in victims)
    own = _own(host, victims, tenant)
    others = leaving - sum(victim.pages for victim in own)
    return (
        ("Free now", free),
        *((f"Evict {victim.alias}", victim.pages) for victim in own),
        *((("Evict adapters of others", others),) if others else ()),
        (f"{what} {entry.alias}", -needed),
        ("Free after", free + leaving - needed),
    ), own


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
        message = f"Not pinned: {left} pages would be left and the largest adapter needs {largest}."
        raise Conflict(
            message, code="pin_would_not_fit", param="ref", expected=largest, found=left, arithmetic=(*lines, ("Needed", largest))
        )
    return lines


def _own(host: ModelHost, victims: tuple[Victim, ...], tenant: TenantId | None) -> tuple[Victim, ...]:
    if tenant is None:
        return victims
    entries = host.residency.entries
    return tuple(victim for victim in victims if entries[victim.id].record.tenant == tenant)
