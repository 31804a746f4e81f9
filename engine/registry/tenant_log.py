"""The audit log as one tenant reads it: numbered by its own lines, without what would tell how much others do. In a session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func
from sqlalchemy import select as sa_select
from sqlmodel import Session, col, select

from engine.registry.tables import AuditTable, VersionTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.audit_record import AuditRecord
    from engine.ids import TenantId

OF_VERSIONS = ("version", "canary_version")
"""Facts that hold the key of a version; ``retired`` holds several."""


def numbers(session: Session, tenant: TenantId, keys: Collection[int]) -> dict[int, int]:
    """Of these lines of the tenant, which of its lines each is, from 1."""
    ranked = _ranked(tenant).subquery()
    return {key: number for key, number in session.execute(sa_select(ranked.c.key, ranked.c.number).where(ranked.c.key.in_(keys)))}  # noqa: C416


def keys(session: Session, tenant: TenantId, wanted: Collection[int]) -> dict[int, int]:
    """The keys of the tenant's lines of these numbers."""
    ranked = _ranked(tenant).subquery()
    return {number: key for number, key in session.execute(sa_select(ranked.c.number, ranked.c.key).where(ranked.c.number.in_(wanted)))}  # noqa: C416


def narrow_lines(session: Session, tenant: TenantId, lines: Sequence[AuditRecord]) -> list[AuditRecord]:
    """The tenant's lines by their numbers, versions by their names.

    Without the hash: from two lines in a row anyone could compute whether there was one of others between them.
    """
    known = numbers(session, tenant, {key for line in lines for key in (line.key, line.undo_of) if key is not None})
    facts = [side for line in lines for side in (line.before, line.after) if side is not None]
    titles = _titles(session, tenant, {key for side in facts for key in _versions_in(side)})
    return [
        replace(
            line,
            key=known[line.key],
            undo_of=None if line.undo_of is None else known.get(line.undo_of),
            before=None if line.before is None else _named(line.before, titles),
            after=None if line.after is None else _named(line.after, titles),
            hash="",
        )
        for line in lines
    ]


def _ranked(tenant: TenantId) -> Select[Any]:
    number = func.row_number().over(order_by=col(AuditTable.key)).label("number")
    return sa_select(col(AuditTable.key).label("key"), number).where(col(AuditTable.tenant) == tenant)


def _versions_in(facts: dict[str, Any]) -> set[int]:
    found = {facts.get(name) for name in OF_VERSIONS} | set(facts.get("retired", ()))
    return {key for key in found if isinstance(key, int)}


def _named(facts: dict[str, Any], titles: dict[int, str]) -> dict[str, Any]:
    named = {name: titles.get(facts[name]) for name in OF_VERSIONS if name in facts}
    retired = {"retired": [titles.get(key) for key in facts["retired"]]} if "retired" in facts else {}
    return facts | named | retired


def _titles(session: Session, tenant: TenantId, wanted: Collection[int]) -> dict[int, str]:
    rows = session.exec(select(VersionTable).where(col(VersionTable.key).in_(wanted), VersionTable.tenant == tenant))
    return {row.key: f"{row.line}@{row.number}" for row in rows if row.key is not None}
