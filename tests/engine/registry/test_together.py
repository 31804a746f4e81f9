"""Many registrations in one call: what they leave is what one after the other leaves, by few statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from sqlalchemy import event
from sqlmodel import Session

from engine.alias import AliasMove, AliasName
from engine.audit_record import AuditRecord
from engine.ids import TenantId
from engine.registry import aliases, audit, reports
from engine.registry.catalog import Catalog, NewVersion
from engine.registry.store import Store
from engine.report import Scores
from tests.engine.registry.test_catalog import ACME, BASE, GLOBEX, version

SCORES = Scores(base=0.5, adapter=0.9)


def new(content: str, name: str, *, tenant: TenantId = ACME, line: str = "", scores: Scores | None = None) -> NewVersion:
    """One of a call."""
    return NewVersion(
        record=version(content, tenant), alias=AliasName(tenant, name), line=line, report={"of": content}, scores=scores, why=f"w {name}"
    )


CALLS: Sequence[Sequence[NewVersion]] = (
    [new("one", "x"), new("two", "y"), new("one", "x", tenant=GLOBEX)],
    [new("three", "x", scores=SCORES), new("four", "z", line="x"), new("two", "y"), new("two", "y2", line="y")],
    [new("one", "x"), new("five", "x"), new("one", "x"), new("six", "q", line="l"), new("seven", "r", line="l"), new("six", "s", line="l")],
)
"""New lines, lines that stand, versions that stand, several of a line, the same twice, a name twice."""


def facts(store: Store) -> list[object]:
    """All that is stored, but for moments and hashes."""

    def told(record: AliasMove | AuditRecord) -> dict[str, object]:
        return {key: value for key, value in dataclasses.asdict(record).items() if key not in {"at_unix", "hash"}}

    lines = [AliasName(ACME, name) for name in ("x", "y", "z", "l", "q")] + [AliasName(GLOBEX, "x")]
    moves = [told(move) for name in [*lines, AliasName(ACME, "r")] for move in store.read(lambda s, n=name: aliases.moves(s, n))]
    rows = [row for line in lines for row in store.read(lambda s, n=line: reports.of_line(s, n))]
    versions = [{key: value for key, value in row.items() if key != "state_unix"} for row in rows]
    return [*moves, *versions, *map(told, store.read(audit.page))]


def test_together_is_as_one_by_one(open_store: Callable[[], Store], tmp_path: Path) -> None:
    """Versions, numbers, reports, scores, names, their history and the audit log are the same; memory is what a restart reads."""
    single = Store(f"sqlite:///{tmp_path / 'single.db'}")
    catalog = Catalog(single, base_digest=BASE)
    for one in chain.from_iterable(CALLS):
        catalog.register(one)
    store = open_store()
    catalog = Catalog(store, base_digest=BASE)
    for call in CALLS:
        done = catalog.register(*call)
        assert [(item.alias.alias, item.record.id) for item in done] == [(one.alias, one.record.id) for one in call]
    assert len(facts(store)) > 20
    assert facts(store) == facts(single)
    single.close()
    assert store.read(audit.verify) is None
    again = Catalog(open_store(), base_digest=BASE)
    assert (again.records, again.aliases, again.versions, again.lines) == (
        catalog.records,
        catalog.aliases,
        catalog.versions,
        catalog.lines,
    )


def test_few_statements(store: Store) -> None:
    """A call with two hundred costs no more statements than one with fifty needs, but for one a tenant."""
    catalog = Catalog(store, base_digest=BASE)
    asked: list[str] = []
    event.listen(store.database.writer, "before_cursor_execute", lambda *told: asked.append(told[2]))
    counts = []
    for count in (50, 200):
        asked.clear()
        catalog.register(*(new(f"{count}-{number}", f"n{count}-{number}") for number in range(count)))
        counts.append(len(asked))
    assert counts[1] <= counts[0] + 2
    assert counts[0] < 30


def test_a_name_that_moved_in_the_same_transaction(store: Store) -> None:
    """What one change of a transaction left is what the next one sees."""
    catalog = Catalog(store, base_digest=BASE)
    name = AliasName(ACME, "x")
    (first,) = catalog.register(new("one", "x"))

    def move(session: Session) -> None:
        aliases.point(session, name, first.record, by="ann", kind="canary", canary=first.record, share=0.5)

    (second,) = catalog.register(new("two", "x"), also=move)
    assert second.before is not None
    assert second.before.canary_share == 0.5
    assert store.read(lambda session: aliases.get(session, name)) == second.alias
    assert second.alias.canary is None
