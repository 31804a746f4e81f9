"""Tenants, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import func
from sqlmodel import col, select

from engine.accounts import TenantRecord
from engine.errors import Conflict
from engine.ids import TenantId
from engine.operation import UNFINISHED
from engine.registry.tables import AliasTable, KeyTable, OperationTable, ScheduleTable, TenantTable, UserTable, VersionTable

if TYPE_CHECKING:
    from sqlmodel import Session


DELETED = "deleted_unix"
"""In a tenant's options."""
GONE = ("retired", "archived", "rejected")
"""States of versions that nobody can call."""


def ensure(session: Session, tenant: TenantId, *, by: str) -> None:
    """There is such a tenant from now on. Raises Conflict for one that was deleted: what it did is still kept under its id."""
    row = session.get(TenantTable, tenant)
    if row is not None and DELETED in row.options:
        message = f"There was a tenant {tenant!r}, which was deleted; its audit log and usage are kept under that id. Take another one."
        raise Conflict(message, code="tenant_was_deleted", param="tenant", found=tenant)
    if row is None:
        session.add(TenantTable(id=tenant, name=tenant, created_unix=time.time(), created_by=by))
        session.flush()


def every(session: Session) -> list[TenantRecord]:
    """By id, without those that were deleted."""
    rows = session.exec(select(TenantTable).order_by(col(TenantTable.id)))
    return [_record(row) for row in rows if DELETED not in row.options]


def get(session: Session, tenant: TenantId) -> TenantRecord:
    """One that is stored."""
    return _record(session.get_one(TenantTable, tenant))


def update(session: Session, tenant: TenantRecord) -> None:
    """Its display name, and whether it is suspended."""
    row = session.get_one(TenantTable, tenant.id)
    row.name, row.disabled_unix = tenant.name, tenant.suspended_unix


def stands(session: Session, tenant: TenantId) -> dict[str, int]:
    """What keeps a tenant from being deleted, in words, and how many of each."""
    live = {
        "versions that are not retired": (VersionTable.tenant == tenant, col(VersionTable.state).not_in(GONE)),
        "aliases": (AliasTable.tenant == tenant,),
        "schedules": (ScheduleTable.tenant == tenant,),
        "operations under way": (OperationTable.tenant == tenant, col(OperationTable.state).in_(("reading", *UNFINISHED))),
        "users": (UserTable.tenant == tenant,),
        "keys that are not revoked": (KeyTable.tenant == tenant, col(KeyTable.revoked_unix).is_(None)),
    }
    found = {what: session.exec(select(func.count()).where(*where)).one() for what, where in live.items()}
    return {what: number for what, number in found.items() if number}


def delete(session: Session, tenant: TenantId, *, at_unix: float) -> None:
    """It and its keys are gone; its id, to which versions, archives, usage and the audit log refer, is kept and not given again."""
    for key in session.exec(select(KeyTable).where(KeyTable.tenant == tenant)):
        session.delete(key)
    row = session.get_one(TenantTable, tenant)
    row.options = {**row.options, DELETED: at_unix}
    session.add(row)
    session.flush()


def _record(row: TenantTable) -> TenantRecord:
    return TenantRecord(id=TenantId(row.id), name=row.name, created_unix=row.created_unix, suspended_unix=row.disabled_unix)
