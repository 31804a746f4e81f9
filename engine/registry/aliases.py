"""Aliases and their history, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import Select

from engine.alias import AliasMove, AliasName, AliasRecord, MoveKind
from engine.ids import AdapterId, TenantId
from engine.registry import tenants
from engine.registry.tables import AliasMoveTable, AliasTable, VersionTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.version import VersionRecord


def point(
    session: Session,
    alias: AliasName,
    version: VersionRecord,
    *,
    by: str,
    kind: MoveKind = "move",
    canary: VersionRecord | None = None,
    share: float = 0.0,
    why: str = "",
) -> AliasRecord:
    """From now on it names ``version``, and for a share of requests ``canary``; the history gets a line when that is new."""
    row = _row(session, alias)
    before = None if row is None else row.version
    if row is None:
        tenants.ensure(session, alias.tenant, by=by)
        row = AliasTable(tenant=alias.tenant, name=alias.name, version=version.key, moved_unix=0.0, moved_by=by)
        kind = "create"
    row.canary = None if canary is None else canary.key
    row.canary_share = share
    if before != version.key or kind == "canary":
        row.version, row.moved_unix, row.moved_by = version.key, time.time(), by
        _note(session, alias, kind, before=before, after=version.key, share=share, by=by, why=why)
    session.add(row)
    session.flush()
    return _record(row, version.id, None if canary is None else canary.id)


def drop(session: Session, alias: AliasName, *, by: str, why: str = "") -> bool:
    """It names nothing from now on; False when it did not."""
    row = _row(session, alias)
    if row is None:
        return False
    _note(session, alias, "drop", before=row.version, after=None, share=0.0, by=by, why=why)
    session.delete(row)
    session.flush()
    return True


def get(session: Session, alias: AliasName) -> AliasRecord | None:
    """As it stands."""
    query = _query().where(AliasTable.tenant == alias.tenant, AliasTable.name == alias.name)
    return next((_record(*found) for found in session.execute(query)), None)


def every(session: Session) -> Iterator[AliasRecord]:
    """All aliases, in the order in which they were made."""
    for found in session.execute(_query().order_by(col(AliasTable.key))):
        yield _record(*found)


def moves(session: Session, alias: AliasName, *, limit: int = 100, before_key: int | None = None) -> list[AliasMove]:
    """Its history, newest first."""
    query = select(AliasMoveTable).where(AliasMoveTable.tenant == alias.tenant, AliasMoveTable.name == alias.name)
    if before_key is not None:
        query = query.where(col(AliasMoveTable.key) < before_key)
    return [
        AliasMove(
            key=row.key or 0,
            tenant=alias.tenant,
            name=row.name,
            kind=row.kind,  # type: ignore[arg-type] # what ``_note`` wrote
            before=row.before,
            after=row.after,
            share=row.share,
            at_unix=row.at_unix,
            by=row.by,
            why=row.why,
        )
        for row in session.exec(query.order_by(col(AliasMoveTable.key).desc()).limit(limit))
    ]


def _query() -> Select[Any]:
    """Each with the contents of its version and of its canary."""
    canary = aliased(VersionTable)
    query = (
        select(AliasTable, VersionTable.content, canary.content)
        .join(VersionTable, col(VersionTable.key) == AliasTable.version)
        .outerjoin(canary, col(canary.key) == AliasTable.canary)
    )
    return cast("Select[Any]", query)


def _record(row: AliasTable, content: str | None, canary: str | None) -> AliasRecord:
    return AliasRecord(
        tenant=TenantId(row.tenant),
        name=row.name,
        adapter=AdapterId(content or ""),
        version=row.version,
        moved_unix=row.moved_unix,
        canary=None if canary is None else AdapterId(canary),
        canary_version=row.canary,
        canary_share=row.canary_share,
    )


def _row(session: Session, alias: AliasName) -> AliasTable | None:
    return session.exec(select(AliasTable).where(AliasTable.tenant == alias.tenant, AliasTable.name == alias.name)).first()


def _note(
    session: Session, alias: AliasName, kind: MoveKind, *, before: int | None, after: int | None, share: float, by: str, why: str
) -> None:
    session.add(
        AliasMoveTable(
            tenant=alias.tenant, name=alias.name, kind=kind, before=before, after=after, share=share, at_unix=time.time(), by=by, why=why
        )
    )
