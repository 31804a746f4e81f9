"""Connections to SQLite or PostgreSQL, and what their errors mean to an operator."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError

from engine.errors import OUTCOME_UNKNOWN, BaseRefused, RegistryUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL, Connection

BUSY_MS = 5000
"""How long a change waits for another process's."""
CONNECT_S = 5
ONE_WRITER = 0x10DADEC
"""Names our lock in PostgreSQL."""
READERS = 8
NEVER_HEARD_OF = "22023"
"""What PostgreSQL says of a transaction that it forgot in a crash: it is still to come."""
OF_THE_CHANGE = ("22", "23", "P0")
"""Classes of PostgreSQL's errors: a value, a constraint, a trigger of ours."""

WHY = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process. Try again, or end what holds it",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process. Try again, or end what holds it",
    sqlite3.SQLITE_FULL: "the disk is full. Free some space",
    sqlite3.SQLITE_READONLY: "the database or its folder is read-only. Make it writable for Loradeck",
    sqlite3.SQLITE_PERM: "the database or its folder is read-only. Make it writable for Loradeck",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened. See that its folder is there and writable",
    sqlite3.SQLITE_IOERR: "the disk does not answer. See that it is there and has space",
    sqlite3.SQLITE_CORRUPT: "the database is damaged. Restore it from a copy",
    sqlite3.SQLITE_NOTADB: "the file is no database. Restore it from a copy",
}
"""By SQLite's primary result code."""


class Database:
    """Two ways in: ``writer`` for changes, one at a time, and ``readers`` that never wait for them."""

    def __init__(self, url: str) -> None:
        self.url = _parse(url)
        self.file = Path(self.url.database) if self.is_sqlite and self.url.database else None
        self.writer = self._open(pool_size=1)
        self.readers = self._open(pool_size=READERS)

    @property
    def is_sqlite(self) -> bool:
        """Or PostgreSQL."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def name(self) -> str:
        """Without its password."""
        return self.url.render_as_string(hide_password=True)

    def check_there(self) -> None:
        """Raise RegistryUnavailable when the file that was opened is no longer where it was: a change would go nowhere."""
        if self.file is None:
            return
        try:
            now = self.file.stat()
        except OSError:
            raise self.unavailable("its file is gone. Put it back") from None
        if (now.st_dev, now.st_ino) != self._inode:
            raise self.unavailable("another file is in its place. Put the one that was opened back, or restart Loradeck")

    def make_folder(self) -> None:
        """Where a SQLite file goes."""
        if self.file is None:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.unavailable(f"the folder {self.file.parent} cannot be made ({error.strerror}). Name another with --data") from None

    def remember_file(self) -> None:
        """What ``check_there`` compares with."""
        if self.file is not None:
            found = self.file.stat()
            self._inode = (found.st_dev, found.st_ino)

    def unavailable(self, why: str) -> RegistryUnavailable:
        """Says what was tried, why it failed and what to do."""
        message = f"The registry cannot be reached: {why}. Nothing was changed, and serving goes on."
        return RegistryUnavailable(message, param="database", found=self.name)

    def explain(self, error: DBAPIError) -> RegistryUnavailable:
        """What a driver's error means."""
        cause = _first(error).orig
        if isinstance(cause, sqlite3.Error):
            code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
            return self.unavailable(WHY.get(code, f"SQLite says {_first_line(cause)!r}"))
        return self.unavailable(f"PostgreSQL says {_first_line(cause)!r}. See that the server runs and lets Loradeck in")

    def unknown(self) -> RegistryUnavailable:
        """Nobody can say whether it was changed."""
        return RegistryUnavailable(
            "The connection to the registry broke during a commit: whether the change was stored is not known yet. Look before you try "
            "again; serving goes on.",
            code=OUTCOME_UNKNOWN,
            param="database",
            found=self.name,
        )

    def mark(self, connection: Connection) -> int | None:
        """What a transaction can be asked for by, should its commit not be answered. SQLite's are on disk or not when the call returns."""
        return None if self.is_sqlite else connection.exec_driver_sql("SELECT txid_current()").scalar_one()

    def was_committed(self, mark: int) -> bool:
        """Whether a transaction is on disk. Raises RegistryUnavailable or DBAPIError while that is not known."""
        try:
            with self.readers.connect() as connection:
                status = connection.execute(text("SELECT txid_status(:mark)"), {"mark": mark}).scalar_one()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == NEVER_HEARD_OF:
                return False
            raise
        if status == "in progress":
            raise self.unavailable("PostgreSQL has not ended the last change yet")
        return bool(status == "committed")

    def close(self) -> None:
        """Let go of all connections."""
        self.writer.dispose()
        self.readers.dispose()

    def _open(self, *, pool_size: int) -> Engine:
        if not self.is_sqlite:
            given = f"-c lock_timeout={BUSY_MS}" + (" -c default_transaction_read_only=on" if pool_size > 1 else "")
            options = {"connect_timeout": CONNECT_S, "application_name": "loradeck", "options": given}
            engine = sqlalchemy.create_engine(self.url, pool_size=pool_size, max_overflow=0, pool_pre_ping=True, connect_args=options)
            if pool_size == 1:
                event.listen(engine, "begin", _begin_alone)
            return engine
        engine = sqlalchemy.create_engine(self.url, pool_size=pool_size, max_overflow=0)
        writes = pool_size == 1
        event.listen(engine, "connect", _prepare if writes else _prepare_reader)
        event.listen(engine, "begin", _begin_writing if writes else _begin_reading)
        return engine


def is_own_fault(error: Exception) -> bool:
    """Whether it is the fault of one change, not of the database."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
    return isinstance(error, IntegrityError | DataError | UnicodeError) or state.startswith(OF_THE_CHANGE)


def _first(error: DBAPIError) -> DBAPIError:
    """What went wrong before something else did while that was undone: SQLite gives up a transaction by itself when its disk is full."""
    before: BaseException | None = error
    while before is not None:
        if isinstance(before, DBAPIError):
            error = before
        before = before.__context__
    return error


def _parse(given: str) -> URL:
    try:
        url = make_url(given)
    except ArgumentError:
        url = None
    if url is None or not url.database or url.get_backend_name() not in {"sqlite", "postgresql"}:
        message = "The database must be sqlite:///FILE or postgresql://USER@HOST/NAME."
        raise BaseRefused(message, code="invalid_value", param="database")
    return url.set(drivername="sqlite" if url.get_backend_name() == "sqlite" else "postgresql+psycopg")


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    """WAL: readers go on while one writes. Every commit reaches the disk before it is answered. Transactions begin where we say."""
    connection.isolation_level = None
    for pragma in (f"busy_timeout = {BUSY_MS}", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_reader(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA query_only = ON")


def _begin_writing(connection: Connection) -> None:
    """Take the write lock at once, so that what is read inside stays true until the commit."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_alone(connection: Connection) -> None:
    """PostgreSQL: one transaction at a time changes the registry, whichever process it is of."""
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ONE_WRITER})")


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n", 1)[0][:200]
