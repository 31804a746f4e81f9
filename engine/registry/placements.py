"""Pins and the warm set, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from sqlalchemy import delete
from sqlmodel import Session, select

from engine.desired import Pin, Placement
from engine.ids import AdapterId, Tier
from engine.registry.tables import PinTable, PlacementTable

if TYPE_CHECKING:
    from collections.abc import Sequence


def every(session: Session) -> list[Placement]:
    """All of them: what is pinned first, then the warm set in its order."""
    pins = {row.content: _pin(row) for row in session.exec(select(PinTable))}
    warm = {row.content: row for row in session.exec(select(PlacementTable))}
    found = [_placement(AdapterId(content), pins.get(content), warm.get(content)) for content in {*pins, *warm}]
    return sorted(found, key=lambda one: (one.pin is None, one.warm_priority, one.content))


def set_pin(session: Session, content: AdapterId, pin: Pin | None) -> None:
    """Keep a pin, or none any more."""
    row = session.get(PinTable, content)
    if pin is None:
        if row is not None:
            session.delete(row)
        return
    row = row or PinTable(content=content, tier=pin.tier, at_unix=0.0)
    row.tier, row.until_unix, row.reason, row.by, row.at_unix = pin.tier, pin.until_unix, pin.reason, pin.by, time.time()
    session.add(row)


def set_warm(session: Session, warm: Sequence[tuple[AdapterId, Tier]]) -> None:
    """The warm set is this, most wanted first."""
    session.execute(delete(PlacementTable))
    session.add_all(
        PlacementTable(content=content, warm_tier=tier, warm_priority=priority, warm_unix=time.time())
        for priority, (content, tier) in enumerate(warm)
    )


def _placement(content: AdapterId, pin: Pin | None, row: PlacementTable | None) -> Placement:
    if row is None:
        return Placement(content=content, pin=pin)
    return Placement(content=content, pin=pin, warm_tier=cast("Tier | None", row.warm_tier), warm_priority=row.warm_priority)


def _pin(row: PinTable) -> Pin:
    return Pin(tier=cast("Tier", row.tier), until_unix=row.until_unix, reason=row.reason, by=row.by)
