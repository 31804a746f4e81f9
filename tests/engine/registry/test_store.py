"""Changes are whole, in order, and on disk before they are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event
from sqlmodel import Session, col, select

from engine.errors import Conflict, InvalidRequest, RegistryUnavailable
from engine.registry.store import Store
from engine.registry.tables import TenantTable

Open = Callable[[], Store]
WAIT_S = 20.0


def add(name: str) -> Callable[[Session], None]:
    """A change."""

    def work(session: Session) -> None:
        session.add(TenantTable(id=name, name=name, created_unix=0.0, created_by="test"))

    return work


def busy(store: Store) -> threading.Event:
    """The registry's thread is in a change until the event is set."""
    inside, hold = threading.Event(), threading.Event()
    store.later(lambda _: (inside.set(), hold.wait(WAIT_S)))
    assert inside.wait(WAIT_S)
    return hold


def names(store: Store) -> list[str]:
    """Tenants other than the two that always are there, in the order in which they came."""
    query = select(TenantTable.id).where(col(TenantTable.created_by) == "test")
    return list(store.read(lambda session: session.exec(query).all()))


def test_what_was_written_outlasts_the_process(open_store: Open) -> None:
    """A change is there for the next that opens the registry, also one left for later."""
    first = open_store()
    first.write(add("a"))
    first.later(add("b"))
    first.close()
    assert names(open_store()) == ["a", "b"]


def test_a_change_is_whole_or_not_at_all(store: Store) -> None:
    """What a change raises undoes all of it, and nothing of others in the same transaction."""

    def half(session: Session) -> None:
        add("half")(session)
        session.flush()
        message = "changed my mind"
        raise ValueError(message)

    hold = busy(store)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(store.write, work) for work in (add("a"), half, add("a"), add("b"))]
        hold.set()
        errors = [answer.exception() for answer in answers]
    assert [type(error) for error in errors] in (
        [type(None), ValueError, Conflict, type(None)],
        [Conflict, ValueError, type(None), type(None)],
    )
    assert sorted(names(store)) == ["a", "b"]


def test_changes_that_come_together_share_a_commit(store: Store) -> None:
    """Forty callers at once wait for a few flushes, not forty."""
    commits = []
    event.listen(store.database.writer, "commit", lambda _: commits.append(1))
    hold = busy(store)
    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(store.write, add(f"{number}")) for number in range(40)]
        end_s = time.monotonic() + WAIT_S
        while len(store._waiting) < 40 and time.monotonic() < end_s:
            time.sleep(0.01)
        hold.set()
        assert all(answer.exception() is None for answer in answers)
    assert len(names(store)) == 40
    assert len(commits) <= 3


def test_memory_follows_in_the_order_of_commits(store: Store) -> None:
    """``then`` runs once a change, after its commit, in the order in which changes were done."""
    heard: list[int] = []
    done: list[int] = []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.write(lambda _: (done.append(number), number)[1], then=heard.append), range(100)))
    assert heard == done
    assert sorted(heard) == list(range(100))
    with pytest.raises(ZeroDivisionError):
        store.write(lambda _: 0, then=lambda zero: 1 // zero and None)
    store.write(add("still here"))


def test_readers_do_not_wait_for_the_writer(store: Store) -> None:
    """While a change is under way, others read what was committed before it."""
    store.write(add("a"))
    inside, hold = threading.Event(), threading.Event()

    def slow(session: Session) -> None:
        add("b")(session)
        session.flush()
        inside.set()
        hold.wait(5)

    store.later(slow)
    assert inside.wait(5)
    assert names(store) == ["a"]
    hold.set()
    store.write(lambda _: None)
    assert names(store) == ["a", "b"]


def test_readers_cannot_change(store: Store) -> None:
    """A read that tries to write is refused."""

    def sneak(session: Session) -> None:
        add("a")(session)
        session.commit()

    with pytest.raises(RegistryUnavailable):
        store.read(sneak)
    assert names(store) == []


def test_a_value_that_cannot_be_stored_is_the_callers_fault(store: Store) -> None:
    """Half a character is a 400, not a database that is away, and the next change works."""
    with pytest.raises(InvalidRequest):
        store.write(add("\ud800"))
    store.write(add("a"))
    assert names(store) == ["a"]


def test_a_closed_store_says_so(store: Store) -> None:
    """After ``close``, which may be called again, a change is refused and one for later is counted as lost."""
    store.close()
    store.close()
    with pytest.raises(RegistryUnavailable):
        store.write(add("a"))
    store.later(add("b"))
    assert store.num_lost == 1
