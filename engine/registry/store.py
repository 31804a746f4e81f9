"""The only place that opens a database session. One thread changes, in the order it was asked; anybody reads."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy.exc import DBAPIError
from sqlmodel import Session

from engine.errors import LoradeckError, RegistryUnavailable
from engine.registry.change import Change, Doubt, refusal
from engine.registry.database import Database, is_own_fault
from engine.registry.schema import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MOST_LATER = 20_000
"""Changes that may wait for the database; more are lost and counted."""
MOST_TOGETHER = 256
"""Changes in one transaction."""
RETRY_S = 1.0
FLUSH_S = 5.0
"""How long ``close`` waits for what was left for later."""


class Store:
    """Changes and reads of the registry. Every database error is a RegistryUnavailable; then nothing was changed.

    But for one: a connection to PostgreSQL that breaks during a commit. Then the database is asked what became of it, before anything else
    is changed; who cannot wait for that gets ``registry_outcome_unknown``, and memory follows once it is known.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.num_lost = 0
        """Changes left for later that were given up."""
        self._waiting: deque[Change[Any]] = deque()
        self._num_later = 0
        self._wake = threading.Condition()
        self._closing = False
        self._not_before_s = 0.0
        self._doubt: Doubt | None = None
        self.on_late_commit: Callable[[], None] = lambda: None
        """Called when memory has followed a commit whose caller had to be told that its outcome was not known. The registry's thread."""
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
        self._put(Change(work=work, then=then, answer=answer))
        return answer.result()

    def later(self, work: Callable[[Session], T], *, then: Callable[[T], None] | None = None) -> None:
        """Leave a change to be done soon, in order with all others; never blocks. It is tried until the database takes it.

        For what the engine thread stores: what was left and not yet done is lost with the process. ``then`` as in ``write``.
        """
        with self._wake:
            if self._num_later >= MOST_LATER or self._closing:
                self.num_lost += 1
                return
            self._num_later += 1
        self._put(Change(work=work, then=then, answer=None))

    def read(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` on what is committed. Any thread but the engine's. Raises RegistryUnavailable."""
        self.database.check_there()
        try:
            with Session(self.database.readers, expire_on_commit=False) as session:
                return work(session)
        except (DBAPIError, UnicodeError) as error:
            raise refusal(error) if is_own_fault(error) else self.database.explain(cast("DBAPIError", error)) from error

    def close(self) -> None:
        """Do what was left for later, as far as the database lets us, and let go of it; safe to call again."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout=FLUSH_S + 2)
        self.database.close()

    def _put(self, change: Change[Any]) -> None:
        with self._wake:
            if self._closing and change.answer is not None:
                raise self.database.unavailable("Loradeck is stopping")
            self._waiting.append(change)
            self._wake.notify_all()

    # The registry's thread

    def _run(self) -> None:
        give_up_s = float("inf")
        while (batch := self._next(give_up_s)) is not None:
            if self._closing and give_up_s == float("inf"):
                give_up_s = time.monotonic() + FLUSH_S
            try:
                self._commit(batch)
            except Exception as fault:  # noqa: BLE001 - handed to the threads that wait for it; the next change is another matter
                for change in batch:
                    change.refuse(fault)
        with self._wake:
            self.num_lost += len(self._waiting)

    def _next(self, give_up_s: float) -> list[Change[Any]] | None:
        """The changes for one transaction, oldest first; none while a doubt is to be settled first. None when the thread is to end."""
        with self._wake:
            while True:
                now_s = time.monotonic()
                idle = not self._waiting and self._doubt is None
                if self._closing and (idle or now_s > give_up_s):
                    return None
                due = any(change.answer is not None for change in self._waiting) or now_s >= self._not_before_s
                if not idle and due:
                    return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
                self._wake.wait(None if idle else self._not_before_s - now_s)

    def _commit(self, batch: list[Change[Any]]) -> None:
        """One transaction; where the database fails, who waits hears of it, and what nobody waits for is tried again."""
        try:
            batch = [*self._settle(), *batch]
            if not batch:
                return
            self.database.check_there()
            with Session(self.database.writer, expire_on_commit=False) as session:
                done = [change for change in batch if self._do(session, change)]
                mark = self.database.mark(session.connection())
                try:
                    session.commit()
                except DBAPIError as error:
                    if mark is None or not error.connection_invalidated:
                        raise
                    self._doubt = Doubt(mark=mark, batch=batch, done=done)
        except DBAPIError as error:
            self._failed(batch, self.database.explain(error))
        except RegistryUnavailable as error:
            self._failed(batch, error)
        else:
            if self._doubt is None:
                self._committed(batch, done)
            else:
                self._ask_once(self._doubt)

    def _committed(self, batch: list[Change[Any]], done: list[Change[Any]]) -> None:
        self._not_before_s = 0.0
        unheard = sum(change.answer is None for change in batch)
        with self._wake:
            self._num_later -= unheard
            self.num_lost += unheard - sum(change.answer is None for change in done)
        for change in done:
            change.tell()

    def _ask_once(self, doubt: Doubt) -> None:
        """Whoever waits hears what became of it if the database says so now, and else that nobody knows."""
        try:
            again = self._settle()
        except (DBAPIError, RegistryUnavailable):
            for change in doubt.batch:
                change.refuse(self.database.unknown())
            self._failed([], self.database.unavailable("the connection broke during a commit"))
        else:
            with self._wake:
                self._waiting.extendleft(reversed(again))

    def _settle(self) -> list[Change[Any]]:
        """Ask what became of a commit in doubt; memory follows it. What is to be done again since it did not come to be.

        Raises RegistryUnavailable or DBAPIError while that is not known.
        """
        doubt = self._doubt
        if doubt is None:
            return []
        committed = self.database.was_committed(doubt.mark)
        self._doubt = None
        if not committed:
            for change in doubt.batch:
                change.refuse(self.database.unavailable("the connection broke before the change was stored. Try again"))
            return [change for change in doubt.batch if change.answer is None]
        late = any(change.answer is not None and change.answer.done() for change in doubt.done)
        self._committed(doubt.batch, doubt.done)
        if late:
            self.on_late_commit()
        return []

    def _do(self, session: Session, change: Change[Any]) -> bool:
        """Within the transaction; False when the change itself was refused, which undoes its own part only."""
        try:
            with session.begin_nested():
                change.result = change.work(session)
        except Exception as error:
            if isinstance(error, RegistryUnavailable) or (isinstance(error, DBAPIError) and not is_own_fault(error)):
                raise
            change.refuse(refusal(error))
            return False
        return True

    def _failed(self, batch: list[Change[Any]], error: RegistryUnavailable) -> None:
        """Who waits is told at once, also those behind this batch: nobody waits for a database that is away."""
        self._not_before_s = time.monotonic() + RETRY_S
        with self._wake:
            standing = [*batch, *self._waiting]
            self._waiting = deque(change for change in standing if change.answer is None)
        for change in standing:
            change.refuse(error)
