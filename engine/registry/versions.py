"""Adapters' versions, in a session."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, tuple_, update
from sqlmodel import Session, col

from engine.alias import AliasName
from engine.ids import AdapterId, TenantId
from engine.registry import tenants
from engine.registry.slices import slices
from engine.registry.tables import AdapterTable, VersionTable, core
from engine.version import VersionRecord, VersionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from sqlalchemy import Row

LISTS = {"modules", "warnings", "fingerprint"}
FACTS = (
    "digest", "tenant", "source", "base_digest", "rank", "modules", "num_matched", "num_pages", "bytes", "base_proof", "registered_unix",
    "warnings", "synthetic", "no_effect_expected", "fingerprint", "key", "line", "number", "state",
)  # fmt: skip
COLUMNS = [getattr(VersionTable, name) for name in ("content", *FACTS)]
ADAPTERS, VERSIONS = core(AdapterTable), core(VersionTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A version to be stored in its tenant's ``line``. ``scores`` None are those that are stored."""

    record: VersionRecord
    line: str
    report: Mapping[str, Any]
    scores: Mapping[str, Any] | None = None

    @property
    def place(self) -> AliasName:
        """Its line."""
        return AliasName(self.record.tenant, self.line)


def put_all(session: Session, given: Sequence[Given], *, state: VersionState, by: str) -> list[VersionRecord]:
    """Store versions, or renew those of the same content in their line; as they are stored, in this order, by few statements.

    No two may be of one line and one content.
    """
    session.flush()
    adapters, are_new = _line_keys(session, {one.place for one in given}, by=by)
    held = [(adapters[one.place], one.record.id) for one in given if one.place not in are_new]
    known, last = _known(session, held), _last_numbers(session, {adapter for adapter, _ in held})
    stored: list[VersionRecord] = []
    fresh: list[dict[str, Any]] = []
    for one in given:
        adapter = adapters[one.place]
        row = known.get((adapter, one.record.id))
        if row is not None:
            stored.append(_renew(session, one, row, state))
            continue
        last[adapter] = last.get(adapter, 0) + 1
        stored.append(replace(one.record, line=one.line, number=last[adapter], state=state))
        fresh.append(_values(stored[-1], one) | {"adapter": adapter, "registered_by": by})
    if fresh:
        session.execute(insert(VERSIONS), fresh)
    session.expire_all()
    keys = _known(session, [(row["adapter"], row["content"]) for row in fresh])
    return [
        record if record.key else replace(record, key=keys[adapters[one.place], record.id].key)
        for one, record in zip(given, stored, strict=True)
    ]


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
    place = AliasName(tenant, name)
    return _line_keys(session, {place}, by=by)[0][place]


def _line_keys(session: Session, places: AbstractSet[AliasName], *, by: str) -> tuple[dict[AliasName, int], AbstractSet[AliasName]]:
    """The adapters' keys, and which of them are new."""
    found = _adapters(session, places)
    missing = sorted(places - found.keys())
    if not missing:
        return found, frozenset()
    for tenant in {place.tenant for place in missing}:
        tenants.ensure(session, tenant, by=by)
    rows = [{"tenant": one.tenant, "name": one.name, "description": "", "created_unix": time.time(), "created_by": by} for one in missing]
    session.execute(insert(ADAPTERS), rows)
    return found | _adapters(session, missing), frozenset(missing)


def _adapters(session: Session, places: Iterable[AliasName]) -> dict[AliasName, int]:
    """The keys of those that there are."""
    found: dict[AliasName, int] = {}
    for part in slices(sorted(places)):
        query = select(ADAPTERS.c.tenant, ADAPTERS.c.name, ADAPTERS.c.key).where(tuple_(ADAPTERS.c.tenant, ADAPTERS.c.name).in_(part))
        found |= {AliasName(TenantId(tenant), name): key for tenant, name, key in session.execute(query)}
    return found


def _known(session: Session, held: Sequence[tuple[int, AdapterId]]) -> dict[tuple[int, str], Row[Any]]:
    """Stored versions by adapter and content."""
    found: dict[tuple[int, str], Row[Any]] = {}
    table = VERSIONS.c
    facts = (table.number, table.registered_unix, table.fingerprint, table.base_digest, table.state)
    for part in slices(held):
        query = select(table.adapter, table.content, table.key, *facts).where(tuple_(table.adapter, table.content).in_(part))
        found |= {(row.adapter, row.content): row for row in session.execute(query)}
    return found


def _last_numbers(session: Session, adapters: AbstractSet[int]) -> dict[int, int]:
    """Of each adapter's newest version."""
    found: dict[int, int] = {}
    for part in slices(sorted(adapters)):
        query = select(VERSIONS.c.adapter, func.max(VERSIONS.c.number)).where(VERSIONS.c.adapter.in_(part)).group_by(VERSIONS.c.adapter)
        found |= {row[0]: row[1] for row in session.execute(query)}
    return found


def _renew(session: Session, one: Given, row: Row[Any], state: VersionState) -> VersionRecord:
    """What was known of it and stays true is kept."""
    kept = tuple(row.fingerprint) if row.base_digest == one.record.base_digest else ()
    record = replace(
        one.record, key=row.key, line=one.line, number=row.number, state=state, registered_unix=row.registered_unix,
        fingerprint=one.record.fingerprint or kept,
    )  # fmt: skip
    values = _values(record, one)
    keeps = {"note"} | ({"state_unix"} if row.state == state else set()) | ({"scores"} if one.scores is None else set())
    session.execute(update(VERSIONS).where(VERSIONS.c.key == row.key).values({name: values[name] for name in values.keys() - keeps}))
    return record


def _values(record: VersionRecord, one: Given) -> dict[str, Any]:
    """Its columns, but for those that say whose it is."""
    facts = {name: getattr(record, name) for name in FACTS if name != "key"} | {name: list(getattr(record, name)) for name in LISTS}
    given = {"content": record.id, "state_unix": time.time(), "report": dict(one.report), "scores": dict(one.scores or {}), "note": ""}
    return facts | given


def _record(row: Iterable[Any], shared: dict[tuple[Any, ...], tuple[Any, ...]]) -> VersionRecord:
    content, *values = row
    facts = dict(zip(FACTS, values, strict=True))
    for name in LISTS:
        value = tuple(facts[name])
        facts[name] = shared.setdefault(value, value)
    return VersionRecord(id=AdapterId(content), **facts)
