"""Aliases and their history, in a session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, insert, tuple_, update
from sqlalchemy import select as sa_select
from sqlmodel import Session, col, select

from engine.alias import AliasMove, AliasName, AliasRecord, MoveKind
from engine.ids import AdapterId
from engine.registry import tenants
from engine.registry.slices import slices
from engine.registry.tables import AliasMoveTable, AliasTable, VersionTable, core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Row

    from engine.version import VersionRecord

ALIASES, MOVES, VERSIONS = core(AliasTable), core(AliasMoveTable), core(VersionTable)
COLUMNS = ("tenant", "name", "version", "moved_unix", "canary", "canary_share")


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
    return AliasRecord(
        tenant=alias.tenant,
        name=alias.name,
        adapter=version.id,
        version=version.key,
        moved_unix=row.moved_unix,
        canary=None if canary is None else canary.id,
        canary_version=row.canary,
        canary_share=row.canary_share,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointing:
    """A name, the version that it is to lead to, and why."""

    alias: AliasName
    version: VersionRecord
    why: str = ""


def point_all(session: Session, pointings: Sequence[Pointing], *, by: str) -> list[tuple[AliasRecord | None, AliasRecord]]:
    """``point`` for many by few statements: each as it was and as it is, in this order, without a canary. No name may come twice."""
    session.flush()
    before = _all(session, [one.alias for one in pointings])
    for tenant in {one.alias.tenant for one in pointings}:
        tenants.ensure(session, tenant, by=by)
    now = time.time()
    after = [_pointed(before.get(one.alias), one, now) for one in pointings]
    made = [record for record in after if record.alias not in before]
    changed = [record for record in after if record.alias in before and before[record.alias] != record]
    if made:
        rows = [
            {"tenant": one.tenant, "name": one.name, "version": one.version, "canary_share": 0.0, "moved_unix": now, "moved_by": by}
            for one in made
        ]
        session.execute(insert(ALIASES), rows)
    for record in changed:
        moved = {"moved_unix": now, "moved_by": by} if before[record.alias].version != record.version else {}
        values = {"version": record.version, "canary": None, "canary_share": 0.0} | moved
        where = ALIASES.c.tenant == record.tenant, ALIASES.c.name == record.name
        session.execute(update(ALIASES).where(*where).values(values))
    _note_all(session, [(before.get(one.alias), one, record) for one, record in zip(pointings, after, strict=True)], by=by)
    session.expire_all()
    return [(before.get(record.alias), record) for record in after]


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
    return _all(session, [alias]).get(alias)


def every(session: Session) -> Iterator[AliasRecord]:
    """All aliases, in the order in which they were made."""
    for found in session.execute(_query().order_by(ALIASES.c.key)):
        yield _record(found)


def moves(session: Session, alias: AliasName, *, limit: int = 100, before: int | None = None) -> list[AliasMove]:
    """Its history, newest first; ``before`` a number, which counts the alias's own moves from 1."""
    own = AliasMoveTable.tenant == alias.tenant, AliasMoveTable.name == alias.name
    total = session.exec(select(func.count()).select_from(AliasMoveTable).where(*own)).one()
    skipped = 0 if before is None else max(0, total - before + 1)
    rows = session.exec(select(AliasMoveTable).where(*own).order_by(col(AliasMoveTable.key).desc()).offset(skipped).limit(limit))
    return [
        AliasMove(
            number=total - skipped - place,
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
        for place, row in enumerate(rows)
    ]


def _query() -> Select[Any]:
    """Columns of each, with the contents of its version and of its canary."""
    names, version, canary = ALIASES.c, VERSIONS.alias(), VERSIONS.alias()
    return (
        sa_select(*(names[name] for name in COLUMNS), version.c.content, canary.c.content.label("canary_content"))
        .join(version, version.c.key == names.version)
        .outerjoin(canary, canary.c.key == names.canary)
    )


def _record(row: Row[Any]) -> AliasRecord:
    return AliasRecord(
        tenant=row.tenant,
        name=row.name,
        adapter=AdapterId(row.content or ""),
        version=row.version,
        moved_unix=row.moved_unix,
        canary=row.canary_content if row.canary is not None else None,
        canary_version=row.canary,
        canary_share=row.canary_share,
    )


def _all(session: Session, names: Iterable[AliasName]) -> dict[AliasName, AliasRecord]:
    """As they stand; a name that leads nowhere has none."""
    found: dict[AliasName, AliasRecord] = {}
    for part in slices(names):
        query = _query().where(tuple_(ALIASES.c.tenant, ALIASES.c.name).in_(part))
        records = map(_record, session.execute(query))
        found |= {record.alias: record for record in records}
    return found


def _pointed(before: AliasRecord | None, one: Pointing, now: float) -> AliasRecord:
    """It has moved only where it led elsewhere."""
    stays = before is not None and before.version == one.version.key
    return AliasRecord(
        tenant=one.alias.tenant,
        name=one.alias.name,
        adapter=one.version.id,
        version=one.version.key,
        moved_unix=before.moved_unix if before is not None and stays else now,
    )


def _note_all(session: Session, moves: Iterable[tuple[AliasRecord | None, Pointing, AliasRecord]], *, by: str) -> None:
    rows = [
        {
            "tenant": after.tenant, "name": after.name, "kind": "create" if before is None else "move",
            "before": None if before is None else before.version, "after": after.version, "share": 0.0, "at_unix": after.moved_unix,
            "by": by, "why": one.why,
        }
        for before, one, after in moves
        if before is None or before.version != after.version
    ]  # fmt: skip
    if rows:
        session.execute(insert(MOVES), rows)


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
