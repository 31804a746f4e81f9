"""Limits of tenants and keys, in a session."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Literal

from sqlmodel import Session, select

from engine.allowance import Allowance
from engine.registry.tables import AllowanceTable

Kind = Literal["tenant", "key"]
FIELDS = tuple(field.name for field in fields(Allowance))


def every(session: Session, kind: Kind) -> dict[str, Allowance]:
    """By tenant, or by key."""
    rows = session.exec(select(AllowanceTable).where(AllowanceTable.kind == kind))
    return {row.subject: Allowance(**{name: getattr(row, name) for name in FIELDS}) for row in rows}


def put(session: Session, kind: Kind, subject: str, allowance: Allowance) -> None:
    """From now on."""
    row = session.get(AllowanceTable, (kind, subject))
    if row is None:
        row = AllowanceTable(kind=kind, subject=subject)
        session.add(row)
    for name, value in asdict(allowance).items():
        setattr(row, name, value)
    session.flush()


def drop(session: Session, kind: Kind, subject: str) -> None:
    """It has none any more."""
    row = session.get(AllowanceTable, (kind, subject))
    if row is not None:
        session.delete(row)
        session.flush()
