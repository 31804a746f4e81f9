"""The audit log only grows, says what was before and after, and shows when it was tampered with."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from engine.audit_record import Subject
from engine.caller import Caller
from engine.ids import TenantId
from engine.registry import audit
from engine.registry.store import Store

ANN = Caller(name="ann", kind="user", role="operator", tenant=TenantId("default"), request="req-1")


def note(store: Store, name: str, **more: object) -> int:
    """One line about an alias."""
    subject = Subject("alias", name, TenantId("default"))
    return store.write(lambda session: audit.append(session, ANN, "alias.move", subject, **more))  # type: ignore[arg-type]


def test_a_line_says_everything(store: Store) -> None:
    """Who, when, what, before, after, why, of which request, and what it takes back."""
    first = note(store, "x", before={"version": 1}, after={"version": 2}, why="better scores")
    second = note(store, "x", before={"version": 2}, after={"version": 1}, undo_of=first)
    newest, oldest = store.read(audit.page)
    assert (oldest.by, oldest.by_kind, oldest.tenant, oldest.request) == ("ann", "user", "default", "req-1")
    assert (oldest.action, oldest.object_kind, oldest.object) == ("alias.move", "alias", "x")
    assert (oldest.before, oldest.after, oldest.why) == ({"version": 1}, {"version": 2}, "better scores")
    assert (newest.key, newest.undo_of) == (second, first)
    assert store.read(lambda session: audit.undone_by(session, first)) == second


def test_pages_and_filters(store: Store) -> None:
    """Lines come newest first, a page at a time, of one object or all."""
    keys = [note(store, "xy"[number % 2]) for number in range(10)]
    page = store.read(lambda session: audit.page(session, limit=4))
    rest = store.read(lambda session: audit.page(session, before_key=page[-1].key))
    assert [record.key for record in (*page, *rest)] == keys[::-1]
    assert {record.object for record in store.read(lambda session: audit.page(session, object="y"))} == {"y"}
    assert store.read(lambda session: audit.page(session, tenant=TenantId("other"))) == []


@pytest.mark.parametrize("statement", ["UPDATE audit SET by = 'nobody'", "DELETE FROM audit"])
def test_the_database_refuses_to_change_a_line(store: Store, statement: str) -> None:
    """Neither our code nor a hand at the database can rewrite or remove a line."""
    note(store, "x")
    with pytest.raises(DBAPIError, match="only grows"), store.database.writer.begin() as connection:
        connection.execute(text(statement))
    assert len(store.read(audit.page)) == 1


@pytest.mark.parametrize("tampering", ["UPDATE audit SET by = 'nobody' WHERE key = 3", "DELETE FROM audit WHERE key = 3"])
def test_tampering_shows(store: Store, tampering: str) -> None:
    """Whoever gets past the triggers still breaks the chain of hashes, and the first line that does not hold is named."""
    for number in range(6):
        note(store, f"{number}", before={"é": "\r\n"}, after={"number": 0.1 + number})
    assert store.read(audit.verify) is None
    with store.database.writer.begin() as connection:
        for trigger in ("audit_no_update", "audit_no_delete") if store.database.is_sqlite else ("audit_only_grows ON audit",):
            connection.execute(text(f"DROP TRIGGER {trigger}"))
        connection.execute(text(tampering))
    assert store.read(audit.verify) in {3, 4}


FORGED = "x\r\n2026-11-30 INFO admin granted \x1b[2J\0\u2028\ud800"


def test_a_line_stays_one_line(store: Store) -> None:
    """Line ends, terminal escapes and what is no text at all are kept as escapes: nobody forges a line."""
    caller = Caller(name=FORGED, kind="key", role=None, tenant=None, request=FORGED)
    subject = Subject("alias", FORGED)
    store.write(lambda session: audit.append(session, caller, "alias.move", subject, after={FORGED: FORGED}, why=FORGED * 500))
    (record,) = store.read(audit.page)
    for value in (record.by, record.object, record.why, record.request):
        assert value is not None
        assert value.isprintable()
        assert "admin granted" in value
    assert record.after == {FORGED: FORGED}
    with store.database.readers.connect() as connection:
        stored: str = connection.execute(text("SELECT after FROM audit")).scalar_one()
    assert stored.isprintable()
    assert store.read(audit.verify) is None
