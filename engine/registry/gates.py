"""Thresholds of evaluation scores, of bases and tenants, in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlmodel import Session, select

from engine.ids import TenantId
from engine.registry import tenants
from engine.registry.tables import BaseTable, TenantTable

if TYPE_CHECKING:
    from collections.abc import Mapping


def every(session: Session) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind (``base`` or ``tenant``) and digest or id."""
    bases = {("base", digest): dict(gate) for digest, gate in session.exec(select(BaseTable.digest, BaseTable.gate))}
    return bases | {("tenant", tenant): dict(gate) for tenant, gate in session.exec(select(TenantTable.id, TenantTable.gate))}


def put(session: Session, key: tuple[str, str], gate: Mapping[str, Any], *, by: str) -> None:
    """Keep them."""
    kind, name = key
    if kind == "tenant":
        tenants.ensure(session, TenantId(name), by=by)
    row = session.get(BaseTable if kind == "base" else TenantTable, name)
    assert row is not None, f"{kind} {name} is not stored"
    row.gate = dict(gate)
    session.add(row)
