"""Bases that were served here, and what is registered for each, in a session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import func
from sqlmodel import Session, col, select

from engine.registry.tables import BaseTable, VersionTable

if TYPE_CHECKING:
    from engine.ids import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRow:
    """A base by the digest of its weights. ``adapters`` are versions of it that are ready."""

    digest: str
    name: str
    source: str
    family: str
    added_unix: float
    adapters: int = 0


class Base(Protocol):
    """What is kept of a base."""

    @property
    def digest(self) -> str:
        """Of its weights."""
        ...

    @property
    def name(self) -> str:
        """Its public name."""
        ...

    @property
    def family(self) -> str:
        """Its architecture."""
        ...


def seen(session: Session, base: Base, *, source: str, by: str) -> None:
    """This base is served here."""
    row = session.get(BaseTable, base.digest)
    if row is None:
        row = BaseTable(digest=base.digest, name="", source="", family=base.family, added_unix=time.time(), added_by=by)
    row.name, row.source = base.name, source
    session.add(row)
    session.flush()


def every(session: Session, tenant: TenantId | None) -> list[BaseRow]:
    """All bases, oldest first, with the counts of what ``tenant`` (None: everybody) has for each."""
    counting = select(VersionTable.base_digest, func.count()).where(VersionTable.state == "ready").group_by(VersionTable.base_digest)
    if tenant is not None:
        counting = counting.where(VersionTable.tenant == tenant)
    counts = dict(session.execute(counting).all())
    rows = session.exec(select(BaseTable).order_by(col(BaseTable.added_unix)))
    return [
        BaseRow(
            digest=row.digest,
            name=row.name,
            source=row.source,
            family=row.family,
            added_unix=row.added_unix,
            adapters=counts.get(row.digest, 0),
        )
        for row in rows
    ]
