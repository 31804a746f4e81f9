"""Pins and the warm set, in a session."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, cast

from sqlalchemy import delete
from sqlmodel import Session, col, select

from engine.desired import Placement, StoredPin
from engine.ids import AdapterId, TenantId, Tier
from engine.registry.tables import PinTable, PlacementTable

if TYPE_CHECKING:
    from collections.abc import Sequence

OF_ALL = ""
"""In place of a tenant: the pin of an operator of all tenants."""


def every(session: Session) -> list[Placement]:
    """All of them: what is pinned first, then the warm set in its order."""
    pins: defaultdict[str, list[StoredPin]] = defaultdict(list)
    for row in session.exec(select(PinTable).order_by(col(PinTable.tenant))):
        pins[row.content].append(_pin(row))
    warm = {row.content: row for row in session.exec(select(PlacementTable))}
    found = [_placement(AdapterId(content), tuple(pins.get(content, ())), warm.get(content)) for content in {*pins, *warm}]
    return sorted(found, key=lambda one: (not one.pins, one.warm_priority, one.content))


def set_pin(session: Session, content: AdapterId, tenant: TenantId | None, pin: StoredPin | None) -> None:
    """Keep a tenant's pin, or none any more; None is an operator of all tenants."""
    owner = OF_ALL if tenant is None else tenant
    row = session.get(PinTable, (content, owner))
    if pin is None:
        if row is not None:
            session.delete(row)
        return
    row = row or PinTable(content=content, tenant=owner, tier=pin.tier, at_unix=0.0)
    row.tier, row.until_unix, row.reason, row.by, row.at_unix = pin.tier, pin.until_unix, pin.reason, pin.by, time.time()
    session.add(row)


def set_warm(session: Session, warm: Sequence[tuple[AdapterId, Tier]]) -> None:
    """The warm set is this, most wanted first."""
    session.execute(delete(PlacementTable))
    session.add_all(
        PlacementTable(content=content, warm_tier=tier, warm_priority=priority, warm_unix=time.time())
        for priority, (content, tier) in enumerate(warm)
    )


def _placement(content: AdapterId, pins: tuple[StoredPin, ...], row: PlacementTable | None) -> Placement:
    if row is None:
        return Placement(content=content, pins=pins)
    return Placement(content=content, pins=pins, warm_tier=cast("Tier | None", row.warm_tier), warm_priority=row.warm_priority)


def _pin(row: PinTable) -> StoredPin:
    return StoredPin(
        tenant=None if row.tenant == OF_ALL else TenantId(row.tenant),
        tier=cast("Tier", row.tier),
        until_unix=row.until_unix,
        reason=row.reason,
        by=row.by,
    )
