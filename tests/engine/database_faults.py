"""Ways in which a registry that is open can fail, each for a while, each the real thing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import event

from engine.registry.store import Store

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
MOST_PAGES = 2**30

Fault = Callable[[Store], AbstractContextManager[None]]


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another process is in the middle of a change."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store.database.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.communicate()


@contextmanager
def vanished(store: Store) -> Iterator[None]:
    """Its files are elsewhere."""
    file = store.database.file
    assert file is not None
    files = list(file.parent.glob(f"{file.name}*"))
    for path in files:
        path.rename(path.with_name(f"away-{path.name}"))
    yield
    for path in files:
        path.with_name(f"away-{path.name}").rename(path)


@contextmanager
def read_only(store: Store) -> Iterator[None]:
    """It opens for reading and not for writing, as in a folder without the permission; that would not bind root, who runs these tests."""

    def open_so(*_: object) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{store.database.file}?mode=ro", uri=True, check_same_thread=False)

    store.database.writer.dispose()
    event.listen(store.database.writer, "do_connect", open_so)
    yield
    event.remove(store.database.writer, "do_connect", open_so)
    store.database.writer.dispose()


@contextmanager
def full(store: Store) -> Iterator[None]:
    """It has no page left: SQLite answers as when the disk has none."""
    _allow(store, 1)
    yield
    _allow(store, MOST_PAGES)


def _allow(store: Store, num_pages: int) -> None:
    with store.database.writer.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {num_pages}")
