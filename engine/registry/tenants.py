"""Tenants, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.registry.tables import TenantTable

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.ids import TenantId


def ensure(session: Session, tenant: TenantId, *, by: str) -> None:
    """There is such a tenant from now on."""
    if session.get(TenantTable, tenant) is None:
        session.add(TenantTable(id=tenant, name=tenant, created_unix=time.time(), created_by=by))
        session.flush()
