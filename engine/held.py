"""Whose the adapters' pages on the device are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.adapters.entry import AdapterEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Device pages, and adapters, by who may take them."""

    pages: dict[str, int]
    count: dict[str, int]


def adapter_pages(entries: Iterable[AdapterEntry]) -> Held:
    """Pinned, leased or cached; a load under way counts as cached."""
    pages = {"pinned": 0, "leased": 0, "cached": 0}
    count = {"pinned": 0, "leased": 0, "cached": 0}
    for entry in entries:
        held = len(entry.pages) + (len(entry.load.pages) if entry.load is not None else 0)
        if held:
            pinned = entry.pin is not None and entry.pin.tier == "device"
            kind = "pinned" if pinned else "leased" if entry.leases else "cached"
            pages[kind] += held
            count[kind] += 1
    return Held(pages=pages, count=count)
