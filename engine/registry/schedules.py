"""Schedules of the warm set, in a session."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import cast

from sqlalchemy import update
from sqlmodel import Session, col, select

from engine.desired import Schedule, Trigger
from engine.ids import TenantId, Tier
from engine.registry import tenants
from engine.registry.tables import ScheduleTable

MOST_KEYS = 2**31 - 1


def every(session: Session) -> list[Schedule]:
    """All of them."""
    return [_record(row) for row in session.exec(select(ScheduleTable).order_by(col(ScheduleTable.created_unix), col(ScheduleTable.key)))]


def put(session: Session, schedule: Schedule) -> Schedule:
    """Add one (its key is 0) or change one; as it is stored."""
    tenants.ensure(session, schedule.tenant, by=schedule.created_by)
    row = session.get(ScheduleTable, schedule.key) if schedule.key else None
    if row is None:
        row = ScheduleTable(
            tenant=schedule.tenant, alias="", trigger="", created_unix=schedule.created_unix or time.time(), created_by=schedule.created_by
        )
        row.key = schedule.key or _unused(session)
    row.alias, row.trigger, row.tier, row.zone = schedule.alias, schedule.trigger, schedule.tier, schedule.zone
    row.days, row.minute, row.enabled, row.ran_unix = list(schedule.days), schedule.minute, schedule.enabled, schedule.ran_unix
    session.add(row)
    session.flush()
    return replace(_record(row), key=row.key or 0)


def drop(session: Session, key: int) -> None:
    """Remove one."""
    row = session.get(ScheduleTable, key)
    if row is not None:
        session.delete(row)


def ran(session: Session, key: int, at_unix: float) -> None:
    """It has run."""
    session.execute(update(ScheduleTable).where(col(ScheduleTable.key) == key).values(ran_unix=at_unix))


def _unused(session: Session) -> int:
    """A key at random: one that counted would tell a tenant how many others have."""
    return next(key for _ in range(1000) if session.get(ScheduleTable, key := 1 + secrets.randbelow(MOST_KEYS)) is None)


def _record(row: ScheduleTable) -> Schedule:
    return Schedule(
        key=row.key or 0,
        tenant=TenantId(row.tenant),
        alias=row.alias,
        trigger=cast("Trigger", row.trigger),
        tier=cast("Tier", row.tier),
        minute=row.minute,
        days=tuple(row.days),
        zone=row.zone,
        enabled=row.enabled,
        ran_unix=row.ran_unix,
        created_unix=row.created_unix,
        created_by=row.created_by,
    )
