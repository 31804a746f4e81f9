"""Tenants, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlmodel import col, select

from engine.accounts import TenantRecord
from engine.ids import TenantId
from engine.registry.tables import AdapterTable, AliasTable, KeyTable, ScheduleTable, TenantTable, UserTable

if TYPE_CHECKING:
    from sqlmodel import Session


def ensure(session: Session, tenant: TenantId, *, by: str) -> None:
    """There is such a tenant from now on."""
    if session.get(TenantTable, tenant) is None:
        session.add(TenantTable(id=tenant, name=tenant, created_unix=time.time(), created_by=by))
        session.flush()


def every(session: Session) -> list[TenantRecord]:
    """By id."""
    return [_record(row) for row in session.exec(select(TenantTable).order_by(col(TenantTable.id)))]


def get(session: Session, tenant: TenantId) -> TenantRecord:
    """One that is stored."""
    return _record(session.get_one(TenantTable, tenant))


def update(session: Session, tenant: TenantRecord) -> None:
    """Its display name, and whether it is suspended."""
    row = session.get_one(TenantTable, tenant.id)
    row.name, row.disabled_unix = tenant.name, tenant.suspended_unix


def owns(session: Session, tenant: TenantId) -> str | None:
    """What of the tenant still stands, in a word; None when nothing does."""
    live = {
        "adapters": select(AdapterTable.key).where(AdapterTable.tenant == tenant),
        "aliases": select(AliasTable.key).where(AliasTable.tenant == tenant),
        "schedules": select(ScheduleTable.key).where(ScheduleTable.tenant == tenant),
        "users": select(UserTable.key).where(UserTable.tenant == tenant),
        "keys": select(KeyTable.id).where(KeyTable.tenant == tenant, col(KeyTable.revoked_unix).is_(None)),
    }
    return next((what for what, query in live.items() if session.exec(query.limit(1)).first() is not None), None)


def delete(session: Session, tenant: TenantId) -> None:
    """It is gone, and its keys with it; anything else that refers to it makes this a conflict."""
    for key in session.exec(select(KeyTable).where(KeyTable.tenant == tenant)):
        session.delete(key)
    session.flush()
    session.delete(session.get_one(TenantTable, tenant))
    session.flush()


def _record(row: TenantTable) -> TenantRecord:
    return TenantRecord(id=TenantId(row.id), name=row.name, created_unix=row.created_unix, suspended_unix=row.disabled_unix)
