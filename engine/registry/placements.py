"""Pins and the warm set, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from sqlalchemy import update
from sqlmodel import Session, col, select

from engine.desired import Placement, StoredPin
from engine.ids import AdapterId, Tier
from engine.registry.tables import PlacementTable

if TYPE_CHECKING:
    from collections.abc import Sequence


def every(session: Session) -> list[Placement]:
    """All of them: pins first, then the warm set in its order."""
    rows = session.exec(select(PlacementTable))
    return sorted((_record(row) for row in rows), key=lambda one: (one.pin is None, one.warm_priority, one.content))


def pin_of(session: Session, content: AdapterId) -> StoredPin | None:
    """The pin that is stored of these weights."""
    row = session.get(PlacementTable, content)
    return None if row is None else _record(row).pin


def set_pin(session: Session, content: AdapterId, pin: StoredPin | None) -> None:
    """Keep a pin, or none any more."""
    row = session.get(PlacementTable, content) or PlacementTable(content=content)
    if pin is None and row.warm_tier is None:
        if row in session:
            session.delete(row)
        return
    row.pin_tier = None if pin is None else pin.tier
    row.pin_until_unix = None if pin is None else pin.until_unix
    row.pin_reason = "" if pin is None else pin.reason
    row.pin_by = "" if pin is None else pin.by
    row.pin_unix = None if pin is None else time.time()
    session.add(row)


def set_warm(session: Session, warm: Sequence[tuple[AdapterId, Tier]]) -> None:
    """The warm set is this, most wanted first."""
    session.execute(update(PlacementTable).values(warm_tier=None, warm_priority=0))
    for priority, (content, tier) in enumerate(warm):
        row = session.get(PlacementTable, content) or PlacementTable(content=content)
        row.warm_tier, row.warm_priority, row.warm_unix = tier, priority, time.time()
        session.add(row)
    for row in session.exec(select(PlacementTable).where(col(PlacementTable.warm_tier).is_(None), col(PlacementTable.pin_tier).is_(None))):
        session.delete(row)


def _record(row: PlacementTable) -> Placement:
    pin = None
    if row.pin_tier is not None:
        pin = StoredPin(tier=cast("Tier", row.pin_tier), until_unix=row.pin_until_unix, reason=row.pin_reason, by=row.pin_by)
    return Placement(content=AdapterId(row.content), pin=pin, warm_tier=cast("Tier | None", row.warm_tier), warm_priority=row.warm_priority)
