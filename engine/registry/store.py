"""The only place that opens a database session. One thread changes, in the order it was asked; anybody reads."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError
from sqlmodel import Session

from engine.errors import Conflict, InvalidRequest, LoradeckError, RegistryUnavailable
from engine.registry.database import Database
from engine.registry.schema import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MOST_LATER = 20_000
"""Changes that may wait for the database; more are lost and counted."""
MOST_TOGETHER = 256
"""Changes in one transaction."""
RETRY_S = 1.0
OWN_FAULT = (IntegrityError, DataError, UnicodeError)
"""Errors of one change, not of the database."""
FLUSH_S = 5.0
"""How long ``close`` waits for what was left for later."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Change(Generic[T]):
    """What is to be done, and who hears of it. ``answer`` is None for what nobody waits for."""

    work: Callable[[Session], T]
    then: Callable[[T], None] | None
    answer: Future[T] | None
    result: T | None = None

    def tell(self) -> None:
        """It is on disk. A fault of ``then`` is told to who waits, and ends nothing else."""
        try:
            if self.then is not None:
                self.then(cast("T", self.result))
        except Exception as fault:  # noqa: BLE001 - handed to the thread that waits for it
            if self.answer is not None:
                self.answer.set_exception(fault)
        else:
            if self.answer is not None:
                self.answer.set_result(cast("T", self.result))


class Store:
    """Changes and reads of the registry. Every database error is a RegistryUnavailable; then nothing was changed."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.num_lost = 0
        """Changes left for later that were given up."""
        self._waiting: deque[_Change[Any]] = deque()
        self._num_later = 0
        self._wake = threading.Condition()
        self._closing = False
        self._not_before_s = 0.0
        try:
            self.database.make_folder()
            bring_up(self.database)
            self.database.remember_file()
        except DBAPIError as error:
            self.database.close()
            raise self.database.explain(error) from error
        except LoradeckError:
            self.database.close()
            raise
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[Session], T], *, then: Callable[[T], None] | None = None) -> T:
        """Run ``work`` in a transaction, whole or not at all, and wait until it is on disk. Any thread but the engine's.

        What was asked before is done before; calls that come together share one transaction and one flush. ``then`` hears the result
        after the commit and before anything that was asked later is done: there memory follows the database. What ``work`` raises is
        raised here and undoes only its own part. Raises RegistryUnavailable.
        """
        answer: Future[T] = Future()
        self._put(_Change(work=work, then=then, answer=answer))
        return answer.result()

    def later(self, work: Callable[[Session], object]) -> None:
        """Leave a change to be done soon, in order with all others; never blocks. It is tried until the database takes it.

        For what the engine thread stores: what was left and not yet done is lost with the process.
        """
        with self._wake:
            if self._num_later >= MOST_LATER or self._closing:
                self.num_lost += 1
                return
            self._num_later += 1
        self._put(_Change(work=work, then=None, answer=None))

    def read(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` on what is committed. Any thread but the engine's. Raises RegistryUnavailable."""
        self.database.check_there()
        try:
            with Session(self.database.readers, expire_on_commit=False) as session:
                return work(session)
        except OWN_FAULT as error:
            raise _refusal(error) from error
        except DBAPIError as error:
            raise self.database.explain(error) from error

    def close(self) -> None:
        """Do what was left for later, as far as the database lets us, and let go of it; safe to call again."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout=FLUSH_S + 2)
        self.database.close()

    def _put(self, change: _Change[Any]) -> None:
        with self._wake:
            if self._closing and change.answer is not None:
                raise self.database.unavailable("Loradeck is stopping")
            self._waiting.append(change)
            self._wake.notify_all()

    # The registry's thread

    def _run(self) -> None:
        give_up_s = float("inf")
        while batch := self._next(give_up_s):
            if self._closing and give_up_s == float("inf"):
                give_up_s = time.monotonic() + FLUSH_S
            self._commit(batch)
        with self._wake:
            self.num_lost += len(self._waiting)

    def _next(self, give_up_s: float) -> list[_Change[Any]]:
        """The changes for one transaction, oldest first; empty when the thread is to end."""
        with self._wake:
            while True:
                now_s = time.monotonic()
                if self._closing and (not self._waiting or now_s > give_up_s):
                    return []
                due = any(change.answer is not None for change in self._waiting) or now_s >= self._not_before_s
                if self._waiting and due:
                    return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
                self._wake.wait(self._not_before_s - now_s if self._waiting else None)

    def _commit(self, batch: list[_Change[Any]]) -> None:
        """One transaction; where the database fails, who waits hears of it, and what nobody waits for is tried again."""
        try:
            self.database.check_there()
            with Session(self.database.writer, expire_on_commit=False) as session, session.begin():
                done = [change for change in batch if self._do(session, change)]
        except DBAPIError as error:
            self._failed(batch, self.database.explain(error))
        except RegistryUnavailable as error:
            self._failed(batch, error)
        else:
            self._not_before_s = 0.0
            unheard = sum(change.answer is None for change in batch)
            with self._wake:
                self._num_later -= unheard
                self.num_lost += unheard - sum(change.answer is None for change in done)
            for change in done:
                change.tell()

    def _do(self, session: Session, change: _Change[Any]) -> bool:
        """Within the transaction; False when the change itself was refused, which undoes its own part only."""
        try:
            with session.begin_nested():
                change.result = change.work(session)
        except Exception as error:
            if isinstance(error, RegistryUnavailable) or (isinstance(error, DBAPIError) and not isinstance(error, OWN_FAULT)):
                raise
            if change.answer is not None:
                change.answer.set_exception(_refusal(error))
            return False
        return True

    def _failed(self, batch: list[_Change[Any]], error: RegistryUnavailable) -> None:
        """Who waits is told at once, also those behind this batch: nobody waits for a database that is away."""
        self._not_before_s = time.monotonic() + RETRY_S
        with self._wake:
            standing = [*batch, *self._waiting]
            self._waiting = deque(change for change in standing if change.answer is None)
        for change in standing:
            if change.answer is not None and not change.answer.done():
                change.answer.set_exception(error)


def _refusal(error: Exception) -> Exception:
    """What a constraint or a value that cannot be stored means to the caller."""
    if isinstance(error, IntegrityError):
        return Conflict("Another change came first, or something else still refers to this. Look again.", code="registry_conflict")
    if isinstance(error, StatementError | UnicodeError):
        return InvalidRequest("A value cannot be stored.", code="invalid_value")
    return error
