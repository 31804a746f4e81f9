"""Operations worked off one at a time, in a thread of their own, beside serving and behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.errors import EngineFault, LoradeckError, RegistryUnavailable
from engine.full_disk import DISK_FULL, unwritable
from engine.intake.batch import Batch
from engine.intake.ending import owner, rest
from engine.intake.progress import changed
from engine.intake.upgrade import UPGRADE, Upgrade, check_base
from engine.intake.work import Work
from engine.operation import UNFINISHED
from engine.process import keep_rows
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlmodel import Session

    from engine.intake.uploads import Uploads
    from engine.model_host import ModelHost
    from engine.operation import OperationRecord, OperationState
    from engine.registration import Registrar

STOP_S = 10.0
TOLD_EVERY_S = 1.0
SWEEP_EVERY_S = 3600.0
RETRY_S = 1.0
"""Between tries while the registry is away."""
log = logging.getLogger("loradeck.intake")


class Worker:
    """Any thread adds and halts. ``work`` is what is under way; None between two."""

    def __init__(self, host: ModelHost, registrar: Registrar, *, uploads: Uploads) -> None:
        self.work: Work | None = None
        self._host = host
        self._registrar = registrar
        self._uploads = uploads
        self._store = host.catalog.store
        self._waiting: deque[str] = deque()
        self._wake = threading.Condition()
        self._stopping = threading.Event()
        self._told_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def begin(self, waiting: Iterable[str]) -> None:
        """Start with these."""
        self._waiting.extend(waiting)
        self._thread.start()

    def add(self, operation: str) -> None:
        """Do it after those that wait."""
        with self._wake:
            self._waiting.append(operation)
            self._wake.notify_all()

    def halt(self, operation: str) -> None:
        """Take no more rows of it; nothing happens when it is not under way."""
        if self.work is not None and self.work.operation == operation:
            self.work.halted.set()

    def stop(self) -> None:
        """End after the batch under way; the rest is carried on at the next start."""
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()
        if self.work is not None:
            self.work.halted.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_S)

    # The thread

    def _run(self) -> None:
        while (operation := self._next()) is not None:
            try:
                self._do(operation)
            except OSError as error:
                self._fail(operation, unwritable("An image", error))
            except RegistryUnavailable as error:
                if error.code == DISK_FULL:
                    self._fail(operation, error)
                else:
                    self._put_off(operation)
            except LoradeckError as error:
                self._fail(operation, error)
            except Exception:
                log.exception("operation %s failed", operation)
                self._fail(operation, EngineFault("Something went wrong inside Loradeck; the log has the details. Resume goes on."))
            self.work = None

    def _next(self) -> str | None:
        while True:
            with suppress(RegistryUnavailable):
                self._uploads.sweep()
            with self._wake:
                if self._wake.wait_for(lambda: self._stopping.is_set() or self._waiting, timeout=SWEEP_EVERY_S):
                    return None if self._stopping.is_set() else self._waiting.popleft()

    def _put_off(self, operation: str) -> None:
        """The registry is away: nothing of the operation was lost, and it goes on once the registry is back."""
        self._stopping.wait(RETRY_S)
        with self._wake:
            self._waiting.appendleft(operation)

    def _do(self, operation: str) -> None:
        record = self._store.read(lambda session: stored.get(session, operation))
        if record is None or record.state not in UNFINISHED:
            return  # cancelled while it waited
        started = record.started_unix or time.time()
        self._store.write(lambda session: stored.change(session, operation, state="running", started_unix=started))
        check_base(record, self._host)
        self.work = Work(operation, self._host, self._batch(record), told=lambda: self._tell(operation, seldom=True))
        self._tell(operation)
        if self.work.run():
            keep_rows(record.total, tidy=False)
            self._end(operation, "done")

    def _batch(self, record: OperationRecord) -> Batch:
        upload = record.options.get("upload")
        return Batch(
            self._host,
            self._registrar,
            upload=self._uploads.path(upload) if upload else None,
            upgrade=Upgrade(self._host, self._host.parts.spec) if record.kind == UPGRADE else None,
            caller=owner(record),
        )

    def _fail(self, operation: str, error: LoradeckError) -> None:
        """It stops and says why; its rows that wait are taken in once it is resumed."""
        again = " Then resume." if error.code == DISK_FULL else ""
        self._end(operation, "failed", error.message + again, code=error.code)

    def _end(self, operation: str, state: OperationState, message: str = "", *, code: str = "") -> None:
        """Unless it was cancelled or asked for again meanwhile. A registry that is away is waited for."""

        def work(session: Session) -> OperationRecord | None:
            record = stored.get(session, operation)
            if record is None or record.state != "running":
                return None
            rest(session, record, state, message=message, code=code)
            return record

        while not self._stopping.is_set():
            try:
                record = self._store.write(work)
            except RegistryUnavailable:
                self._stopping.wait(RETRY_S)
            else:
                break
        else:
            log.warning("operation %s: the registry is away, so its end is not stored; it is carried on at the next start", operation)
            return
        if record is not None and state == "done" and not record.failed and record.options.get("upload"):
            self._uploads.drop(record.options["upload"])
        self._tell(operation)

    def _tell(self, operation: str, *, seldom: bool = False) -> None:
        """An event for those who watch; with ``seldom`` at most one a second, and none while the registry is away."""
        now_s = time.monotonic()
        if seldom and now_s - self._told_s < TOLD_EVERY_S:
            return
        self._told_s = now_s
        with suppress(RegistryUnavailable):
            record = self._store.read(lambda session: stored.get(session, operation))
            if record is not None:
                self._host.publisher.record_event(changed(record))
