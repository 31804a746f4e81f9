"""A database that fails refuses changes, says why, and takes them again when it is back; nothing is done by halves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlmodel import Session, select

from engine.alias import AliasName
from engine.errors import Conflict, RegistryUnavailable
from engine.registry import database
from engine.registry.catalog import Catalog, NewVersion
from engine.registry.store import Store
from engine.registry.tables import TenantTable
from tests.engine.database_faults import Fault, full, locked, read_only, vanished
from tests.engine.registry.conftest import POSTGRESQL, SQLITE
from tests.engine.registry.test_catalog import ACME, BASE, register, same, version
from tests.engine.registry.test_store import add, busy, names
from tests.postgres import PostgresServer

Open = Callable[[], Store]
WAIT_S = 20.0


def arrives(store: Store, name: str) -> None:
    """What was left for later is there in time."""
    end_s = time.monotonic() + WAIT_S
    while name not in names(store):
        assert time.monotonic() < end_s
        time.sleep(0.05)


def large(session: Session) -> None:
    """A change that needs more pages."""
    session.add(TenantTable(id="large", name="x" * 100_000, created_unix=0.0, created_by="test"))


def check_refused(store: Store, catalog: Catalog, fault: Fault, says: str) -> None:
    """Changes are refused during a fault with words that help, and done after it."""
    register(catalog, "one")
    many = [NewVersion(record=version(f"{number}"), alias=AliasName(ACME, f"{number}")) for number in range(200)]
    before = dict(catalog.records), dict(catalog.aliases)
    with fault(store):
        for change in (lambda: store.write(large), lambda: catalog.register(*many)):
            with pytest.raises(RegistryUnavailable, match=says) as refused:
                change()
            assert "Nothing was changed" in refused.value.message
        store.later(add("later"))
        assert (dict(catalog.records), dict(catalog.aliases)) == before
    arrives(store, "later")
    assert names(store) == ["later"]
    store.write(large)
    register(catalog, "two")


@SQLITE
@pytest.mark.parametrize(
    ("fault", "says"),
    [(locked, "locked by another process"), (vanished, "its file is gone"), (read_only, "is read-only"), (full, "the disk is full")],
)
def test_sqlite_fails(open_store: Open, monkeypatch: pytest.MonkeyPatch, fault: Fault, says: str) -> None:
    """Locked, gone, read-only, full: a change is refused with the reason and what to do, memory stays, and all works again after it."""
    monkeypatch.setattr(database, "BUSY_MS", 200)
    store = open_store()
    catalog = Catalog(store, base_digest=BASE)
    check_refused(store, catalog, fault, says)
    same(catalog, Catalog(open_store(), base_digest=BASE))


@POSTGRESQL
def test_postgresql_stops(open_store: Open, postgres_server: PostgresServer) -> None:
    """A server that ends in the middle and comes back: as above."""
    store = open_store()
    catalog = Catalog(store, base_digest=BASE)
    check_refused(store, catalog, lambda _: postgres_server.stopped(), "See that the server runs")
    same(catalog, Catalog(open_store(), base_digest=BASE))


def breaks(store: Store, name: str, broken: Callable[[psycopg.Connection], None]) -> Callable[[Session], None]:
    """A change during whose commit the connection breaks."""

    def on_commit(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        broken(driver)
        driver.pgconn.finish()

    def work(session: Session) -> None:
        add(name)(session)
        event.listen(store.database.writer, "commit", on_commit, once=True)

    return work


def never_sent(_: psycopg.Connection) -> None:
    """Before the server hears of it."""


def not_answered(connection: psycopg.Connection) -> None:
    """After the server has done it."""
    connection.commit()


@POSTGRESQL
def test_a_commit_without_an_answer_is_looked_up(store: Store) -> None:
    """A connection that breaks during a commit: the database is asked what became of it, and the caller hears just that."""
    heard: list[str] = []
    store.write(breaks(store, "stored", not_answered), then=lambda _: heard.append("stored"))
    with pytest.raises(RegistryUnavailable, match="Nothing was changed") as refused:
        store.write(breaks(store, "lost", never_sent), then=lambda _: heard.append("lost"))
    assert refused.value.code == "registry_unavailable"
    assert names(store) == heard == ["stored"]


@POSTGRESQL
@pytest.mark.parametrize(("broken", "there"), [(not_answered, ["stored", "later"]), (never_sent, ["later"])])
def test_who_cannot_wait_is_told_that_nobody_knows(
    store: Store, postgres_server: PostgresServer, broken: Callable[[psycopg.Connection], None], there: list[str]
) -> None:
    """With the server gone as well nobody claims anything; once it is back, memory follows what is stored, and each change is done once."""
    heard: list[str] = []
    store.on_late_commit = lambda: heard.append("late")

    def gone(connection: psycopg.Connection) -> None:
        broken(connection)
        postgres_server.stop()

    hold = busy(store)
    store.later(add("later"))
    threading.Timer(0.3, hold.set).start()
    with pytest.raises(RegistryUnavailable) as refused:
        store.write(breaks(store, "stored", gone), then=lambda _: heard.append("stored"))
    try:
        assert refused.value.code == "registry_outcome_unknown"
        assert "Nothing was changed" not in refused.value.message
        assert heard == []
        with pytest.raises(RegistryUnavailable):
            store.write(add("after"))
    finally:
        postgres_server.start()
    store.write(add("after"))
    assert heard == (["stored", "late"] if broken is not_answered else [])
    arrives(store, "later")
    assert sorted(names(store)) == sorted([*there, "after"])


@pytest.mark.parametrize("statement", ["UPDATE audit SET by = 'nobody'", "DELETE FROM audit"])
def test_a_log_that_only_grows_is_not_a_database_that_is_away(open_store: Open, statement: str) -> None:
    """What its triggers refuse is told as what it is, and undoes its own change only."""
    store = open_store()
    register(Catalog(store, base_digest=BASE), "one")
    with pytest.raises(Conflict) as refused:
        store.write(lambda session: session.execute(text(statement)))
    assert refused.value.code == "audit_only_grows"
    store.write(add("a"))
    assert store.read(lambda session: session.exec(select(TenantTable).where(TenantTable.id == "a")).one())
