"""The audit log: written in the transaction of the change, never changed, each line carrying the hash of the one before."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert
from sqlmodel import Session, col, select

from engine.audit_record import AuditRecord, Subject
from engine.registry.tables import AuditTable, core

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.caller import Caller
    from engine.ids import TenantId

MOST_CHARS = 2000
"""Of a name or a reason."""
HASHED = ("at_unix", "by", "by_kind", "tenant", "action", "object_kind", "object", "before", "after", "why", "request", "undo_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is to be noted of one change."""

    action: str
    subject: Subject
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    why: str = ""
    undo_of: int | None = None


def append(
    session: Session,
    caller: Caller,
    action: str,
    subject: Subject,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    why: str = "",
    undo_of: int | None = None,
) -> int:
    """Add a line about a subject; its key. Call it in the same session as the change."""
    line = Line(action=action, subject=subject, before=before, after=after, why=why, undo_of=undo_of)
    append_all(session, caller, [line])
    key = session.exec(select(func.max(AuditTable.key))).one()
    assert key is not None
    return key


def append_all(session: Session, caller: Caller, lines: Iterable[Line]) -> None:
    """Add lines in their order, by one statement."""
    previous = session.exec(select(AuditTable.hash).order_by(col(AuditTable.key).desc()).limit(1)).first() or ""
    rows = []
    for line in lines:
        row = _row(caller, line, previous)
        row.hash = previous = _hash(row)
        rows.append(row.model_dump(exclude={"key"}))
    if rows:
        session.execute(insert(core(AuditTable)), rows)


def page(  # noqa: PLR0913 - each is a filter of the log
    session: Session,
    *,
    before_key: int | None = None,
    limit: int = 100,
    tenant: TenantId | None = None,
    object_kind: str | None = None,
    object: str | None = None,  # noqa: A002 - what the log calls it
    action: str | None = None,
    by: str | None = None,
    since_unix: float | None = None,
) -> list[AuditRecord]:
    """Lines older than ``before_key``, newest first; None asks for all."""
    query = select(AuditTable).order_by(col(AuditTable.key).desc()).limit(limit)
    if before_key is not None:
        query = query.where(col(AuditTable.key) < before_key)
    if since_unix is not None:
        query = query.where(col(AuditTable.at_unix) >= since_unix)
    wanted = {"tenant": tenant, "object_kind": object_kind, "object": object, "action": action, "by": by}
    for name, value in wanted.items():
        if value is not None:
            query = query.where(col(getattr(AuditTable, name)) == value)
    return [_record(row) for row in session.exec(query)]


def get(session: Session, key: int) -> AuditRecord | None:
    """One line."""
    row = session.get(AuditTable, key)
    return None if row is None else _record(row)


def undone_by(session: Session, key: int) -> int | None:
    """The first of the lines that took this one back."""
    return session.exec(select(AuditTable.key).where(AuditTable.undo_of == key).order_by(col(AuditTable.key)).limit(1)).first()


def undone_among(session: Session, keys: Sequence[int]) -> dict[int, int]:
    """Of these lines, those that others took back, each with the first that did."""
    query = select(AuditTable.undo_of, AuditTable.key).where(col(AuditTable.undo_of).in_(keys)).order_by(col(AuditTable.key).desc())
    return {undone: key for undone, key in session.exec(query) if undone is not None and key is not None}


def verify(session: Session) -> int | None:
    """The first line that is not as it was written, or before which one is missing; None when all hold."""
    previous = ""
    with closing(session.exec(select(AuditTable).order_by(col(AuditTable.key)).execution_options(yield_per=1000))) as rows:
        for row in rows:
            if row.previous != previous or row.hash != _hash(row):
                return row.key
            previous = row.hash
    return None


def one_line(text: str) -> str:
    """Control characters, line ends and lone surrogates are written as escapes, so that a line stays a line; and not without end."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:MOST_CHARS])


def _json(value: Mapping[str, Any] | None) -> str | None:
    """ASCII and in one order: what is hashed is what is read back."""
    return None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _row(caller: Caller, line: Line, previous: str) -> AuditTable:
    """Without its hash."""
    subject = line.subject
    return AuditTable(
        at_unix=time.time(),
        by=one_line(caller.name),
        by_kind=caller.kind,
        tenant=subject.tenant,
        action=line.action,
        object_kind=subject.kind,
        object=one_line(subject.name),
        before=_json(line.before),
        after=_json(line.after),
        why=one_line(line.why),
        request=None if caller.request is None else one_line(caller.request),
        undo_of=line.undo_of,
        previous=previous,
        hash="",
    )


def _hash(row: AuditTable) -> str:
    line = json.dumps([row.previous, *(getattr(row, name) for name in HASHED)], ensure_ascii=True)
    return hashlib.sha256(line.encode()).hexdigest()


def _record(row: AuditTable) -> AuditRecord:
    assert row.key is not None
    return AuditRecord(
        key=row.key,
        at_unix=row.at_unix,
        by=row.by,
        by_kind=row.by_kind,
        tenant=row.tenant,
        action=row.action,
        object_kind=row.object_kind,
        object=row.object,
        before=None if row.before is None else json.loads(row.before),
        after=None if row.after is None else json.loads(row.after),
        why=row.why,
        request=row.request,
        undo_of=row.undo_of,
        hash=row.hash,
    )
