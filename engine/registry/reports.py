"""What was found out about versions: reports, scores, archives, and those that were rejected. In a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, update
from sqlmodel import Session, col, select

from engine.alias import AliasName
from engine.ids import TenantId
from engine.registry.tables import AdapterTable, VersionTable
from engine.registry.versions import line_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement

    from engine.ids import AdapterId
    from engine.version import VersionState

FACTS = (
    "key", "tenant", "line", "number", "content", "state", "state_unix", "digest", "source", "base_digest", "base_proof", "rank", "modules",
    "num_matched", "num_pages", "bytes", "registered_unix", "registered_by", "warnings", "synthetic", "no_effect_expected", "fingerprint",
    "report", "scores", "note", "archive",
)  # fmt: skip


def reject(
    session: Session, line: AliasName, *, content: AdapterId | None, source: str, base_digest: str, report: Mapping[str, Any], by: str
) -> tuple[int, int] | None:
    """Note a version that the gate refused: its key and number. The same source again renews the newest; None where these weights serve."""
    adapter = line_key(session, line.tenant, line.name, by=by)
    newest = session.exec(
        select(VersionTable).where(VersionTable.adapter == adapter).order_by(col(VersionTable.number).desc()).limit(1)
    ).first()
    row = _same(session, adapter, content) if content is not None else None
    if row is None and newest is not None and (newest.state, newest.source, newest.content) == ("rejected", source, content):
        row = newest
    if row is not None and row.state not in {"rejected", "registered", "validating"}:
        return None
    if row is None:
        last = session.exec(select(func.max(VersionTable.number)).where(VersionTable.adapter == adapter)).one()
        row = VersionTable(
            adapter=adapter, tenant=line.tenant, line=line.name, number=(last or 0) + 1, content=content, state="rejected", state_unix=0.0,
            digest=content or "", source=source, base_digest=base_digest, base_proof="declared", rank=0, modules=[], num_matched=0,
            num_pages=0, bytes=0, registered_unix=time.time(), registered_by=by,
        )  # fmt: skip
    row.state, row.state_unix, row.report = "rejected", time.time(), dict(report)
    session.add(row)
    session.flush()
    assert row.key is not None
    return row.key, row.number


def of_line(session: Session, line: AliasName, *, limit: int = 100, offset: int = 0) -> list[dict[str, Any]]:
    """Its versions, newest first, rejected ones too, with report and scores."""
    query = (
        select(VersionTable)
        .join(AdapterTable, col(AdapterTable.key) == VersionTable.adapter)
        .where(AdapterTable.tenant == line.tenant, AdapterTable.name == line.name)
        .order_by(col(VersionTable.number).desc())
    )
    return [_facts(row) for row in session.exec(query.limit(limit).offset(offset))]


def tally(session: Session, tenant: TenantId | None) -> dict[str, int]:
    """How many versions are in each state."""
    query = select(VersionTable.state, func.count()).group_by(VersionTable.state)
    if tenant is not None:
        query = query.where(VersionTable.tenant == tenant)
    return {state: number for state, number in session.exec(query)}  # noqa: C416 - rows are no tuples to a type checker


def in_states(
    session: Session, states: Collection[str], *, tenant: TenantId | None, text: str, limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """A page of the versions in these states whose line has ``text`` in its name, newest first, and how many there are."""
    wanted: list[ColumnElement[bool]] = [col(VersionTable.state).in_(states)]
    if tenant is not None:
        wanted.append(col(VersionTable.tenant) == tenant)
    if text:
        wanted.append(func.lower(VersionTable.line).contains(text.lower(), autoescape=True))
    found = session.exec(select(func.count()).select_from(VersionTable).where(*wanted)).one()
    order = (col(VersionTable.state_unix).desc(), col(VersionTable.key).desc())
    keys = session.exec(select(VersionTable.key).where(*wanted).order_by(*order).limit(limit).offset(offset)).all()
    rows = {row.key: row for row in session.exec(select(VersionTable).where(col(VersionTable.key).in_(keys)))}
    return [_facts(rows[key]) for key in keys], found


def find_line(session: Session, name: str, tenant: TenantId | None) -> AliasName | None:
    """The adapter of this name, also one whose every version was rejected; of several tenants' the oldest."""
    query = select(AdapterTable).where(AdapterTable.name == name)
    if tenant is not None:
        query = query.where(AdapterTable.tenant == tenant)
    row = session.exec(query.order_by(col(AdapterTable.key)).limit(1)).first()
    return None if row is None else AliasName(TenantId(row.tenant), row.name)


def facts(session: Session, key: int) -> dict[str, Any]:
    """All that is stored of one version."""
    row = session.get(VersionTable, key)
    assert row is not None, f"version {key} is gone"
    return _facts(row)


def numbered(session: Session, line: AliasName, number: int) -> dict[str, Any] | None:
    """One version of a line, in any state."""
    query = select(VersionTable).where(VersionTable.tenant == line.tenant, VersionTable.line == line.name, VersionTable.number == number)
    row = session.exec(query).first()
    return None if row is None else _facts(row)


def set_scores(session: Session, key: int, scores: Mapping[str, Any]) -> None:
    """What its training record says of it."""
    session.execute(update(VersionTable).where(col(VersionTable.key) == key).values(scores=dict(scores)))


def complete(session: Session, keys: Collection[int], check: Mapping[str, Any], *, state: VersionState | None = None, **facts: str) -> None:
    """A check that was pending has been made: the reports of these versions say how, with ``facts``, and so may their state."""
    for row in session.exec(select(VersionTable).where(col(VersionTable.key).in_(keys))):
        checks = [check if (one["name"], one["verdict"]) == (check["name"], "pending") else one for one in row.report.get("checks", ())]
        row.report = {**row.report, "checks": checks, **facts}
        if state is not None:
            row.state, row.state_unix = state, time.time()
        session.add(row)


def set_archive(session: Session, key: int, digest: str) -> None:
    """Where it lies in the archive."""
    session.execute(update(VersionTable).where(col(VersionTable.key) == key).values(archive=digest))


def archive_of(session: Session, key: int) -> str | None:
    """The digest of its archive."""
    return session.exec(select(VersionTable.archive).where(VersionTable.key == key)).first()


def drop_archive(session: Session, key: int, *, note: str) -> None:
    """It lies in the archive no more."""
    session.execute(update(VersionTable).where(col(VersionTable.key) == key).values(archive=None, note=note))


def archives_of(session: Session, keys: Collection[int]) -> list[str]:
    """The digests of the archives of these versions, of those that have one."""
    found = session.exec(select(VersionTable.archive).where(col(VersionTable.key).in_(keys)))
    return [digest for digest in found if digest is not None]


def _same(session: Session, adapter: int, content: AdapterId) -> VersionTable | None:
    return session.exec(select(VersionTable).where(VersionTable.adapter == adapter, VersionTable.content == content)).first()


def _facts(row: VersionTable) -> dict[str, Any]:
    return {name: getattr(row, name) for name in FACTS}
