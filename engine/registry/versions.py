"""Adapters' versions, in a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, update
from sqlmodel import Session, col, select

from engine.ids import AdapterId, TenantId
from engine.registry import tenants
from engine.registry.tables import AdapterTable, VersionTable
from engine.version import VersionRecord, VersionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
LISTS = {"modules", "warnings", "fingerprint"}
FACTS = (
    "digest", "tenant", "source", "base_digest", "rank", "modules", "num_matched", "num_pages", "bytes", "base_proof", "registered_unix",
    "warnings", "synthetic", "no_effect_expected", "fingerprint", "key", "line", "number", "state",
)  # fmt: skip
GIVEN = {"key", "line", "number", "state"}
"""What storing decides."""
COLUMNS = [getattr(VersionTable, name) for name in ("content", *FACTS)]


def put(
    session: Session, record: VersionRecord, *, line: str, state: VersionState, by: str, report: Mapping[str, Any] | None = None
) -> VersionRecord:
    """Store a version in its tenant's ``line``, or renew the one of the same content; as it is stored."""
    adapter = line_key(session, record.tenant, line, by=by)
    row = session.exec(select(VersionTable).where(VersionTable.adapter == adapter, VersionTable.content == record.id)).first()
    facts: dict[str, Any] = {name: getattr(record, name) for name in FACTS if name not in GIVEN}
    facts |= {name: list(facts[name]) for name in LISTS}
    if row is None:
        last = session.exec(select(func.max(VersionTable.number)).where(VersionTable.adapter == adapter)).one()
        row = VersionTable(
            **facts, adapter=adapter, line=line, number=(last or 0) + 1, content=record.id, registered_by=by, state=state,
            state_unix=time.time(),
        )  # fmt: skip
    facts["registered_unix"] = row.registered_unix
    facts["fingerprint"] = facts["fingerprint"] or (row.fingerprint if row.base_digest == record.base_digest else [])
    for name, value in facts.items():
        setattr(row, name, value)
    if row.state != state:
        row.state, row.state_unix = state, time.time()
    if report is not None:
        row.report = dict(report)
    session.add(row)
    session.flush()
    return _record([getattr(row, column.key) for column in COLUMNS], {})


def every(session: Session) -> Iterator[VersionRecord]:
    """All versions that have weights, in the order of their keys; lists that are alike are one object."""
    rows = session.execute(select(*COLUMNS).where(col(VersionTable.content).is_not(None)).order_by(col(VersionTable.key)))
    shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        yield _record(row, shared)


def set_state(session: Session, keys: Sequence[int], state: VersionState, *, note: str = "") -> None:
    """Move versions on in their lifecycle."""
    session.execute(update(VersionTable).where(col(VersionTable.key).in_(keys)).values(state=state, state_unix=time.time(), note=note))


def set_fingerprint(session: Session, content: AdapterId, fingerprint: Sequence[float]) -> None:
    """The probe has passed: for every version of these weights."""
    session.execute(update(VersionTable).where(col(VersionTable.content) == content).values(fingerprint=list(fingerprint)))


def line_key(session: Session, tenant: TenantId, name: str, *, by: str) -> int:
    """The adapter's key; it is made when there is none."""
    query = select(AdapterTable.key).where(AdapterTable.tenant == tenant, AdapterTable.name == name)
    key = session.exec(query).first()
    if key is None:
        tenants.ensure(session, tenant, by=by)
        row = AdapterTable(tenant=tenant, name=name, created_unix=time.time(), created_by=by)
        session.add(row)
        session.flush()
        key = row.key
    assert key is not None
    return key


def _record(row: Iterable[Any], shared: dict[tuple[Any, ...], tuple[Any, ...]]) -> VersionRecord:
    content, *values = row
    facts = dict(zip(FACTS, values, strict=True))
    for name in LISTS:
        value = tuple(facts[name])
        facts[name] = shared.setdefault(value, value)
    return VersionRecord(id=AdapterId(content), **facts)
