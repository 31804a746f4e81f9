"""Imports as operations: stored row by row, carried on after a restart, one at a time, beside serving and behind it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from engine.caller import Caller
from engine.errors import Conflict, LoradeckError, OperationNotFound, RegistryUnavailable
from engine.intake.batch import Batch
from engine.intake.importing import read_rows
from engine.intake.progress import DryRun, Progress, changed, first_item
from engine.intake.work import Work
from engine.operation import UNFINISHED, OperationRecord
from engine.process import keep_rows
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlmodel import Session

    from engine.intake.importing import Import
    from engine.model_host import ModelHost
    from engine.operation import ItemRecord, ItemState, OperationState
    from engine.registration import Registrar

ROWS_TOGETHER = 1000
"""Rows stored in one transaction when an operation is made."""
JUDGED_TOGETHER = 2
STOP_S = 10.0
TOLD_EVERY_S = 1.0
log = logging.getLogger("loradeck.intake")


class Operations:
    """Any thread asks; one thread of its own works. What was unfinished when the process ended is carried on at the next start."""

    def __init__(self, host: ModelHost, registrar: Registrar) -> None:
        self._host = host
        self._registrar = registrar
        self.uploads = registrar.sources.staging.folder
        """Where archives that were sent lie while they are needed."""
        self._store = host.catalog.store
        self._waiting: deque[str] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._work: Work | None = None
        self._told_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def begin(self) -> Callable[[], None]:
        """Carry on with what an earlier process left; what ends it is returned. Raises RegistryUnavailable."""
        unfinished = self._store.read(lambda session: stored.page(session, states=(*UNFINISHED, "reading"), limit=10_000))
        for operation in reversed(unfinished):
            if operation.state == "reading":
                message = "Loradeck ended while its rows were stored; send the import again."
                self._change(operation.id, state="failed", message=message, ended_unix=time.time())
            else:
                self._waiting.append(operation.id)
        uploads = self._store.read(lambda session: [one.options.get("upload", "") for one in stored.page(session, limit=10_000)])
        self._registrar.sources.staging.sweep(keep=uploads)
        self._thread.start()
        return self.stop

    def stop(self) -> None:
        """End after the batch under way; the rest is carried on at the next start."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._work is not None:
            self._work.halted.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_S)

    def dry_run(self, request: Import, *, offset: int, limit: int, caller: Caller) -> DryRun:
        """Judge some rows; reads their files and changes nothing. Blocks: call it in a thread."""
        caller.need("operator")
        rows = read_rows(request, self._registrar.sources, caller)
        batch = Batch(self._host, self._registrar, upload=self._upload(request.upload), caller=caller)
        with ThreadPoolExecutor(JUDGED_TOGETHER, thread_name_prefix="judge") as pool:
            judged = tuple(pool.map(batch.judge, rows[offset : offset + limit]))
        return DryRun(total=len(rows), offset=offset, rows=judged)

    def start(self, request: Import, *, caller: Caller) -> Progress:
        """Store the rows and queue the work. Blocks: call it in a thread. Raises Forbidden, InvalidRequest, SourceNotAllowed."""
        caller.need("operator")
        rows = read_rows(request, self._registrar.sources, caller)
        now = time.time()
        record = OperationRecord(
            id=uuid.uuid4().hex,
            kind=f"import.{request.kind}",
            state="reading",
            tenant=caller.tenant,
            options=request.options | {"by_kind": caller.kind},
            total=len(rows),
            failed=sum(row.fault is not None for row in rows),
            created_unix=now,
            created_by=caller.name,
        )
        self._store.write(lambda session: stored.put(session, record))
        items = (first_item(number, row) for number, row in enumerate(rows))
        while part := list(islice(items, ROWS_TOGETHER)):
            self._store.write(partial(stored.put_items, operation=record.id, items=part))
        self._enqueue(record.id)
        return self.get(record.id, caller=caller)

    def page(self, *, offset: int = 0, limit: int = 100, caller: Caller) -> list[Progress]:
        """Newest first; of a tenant's user, its tenant's own."""
        caller.need("viewer")
        found = self._store.read(lambda session: stored.page(session, tenant=caller.tenant, offset=offset, limit=limit))
        return [self._shown(record) for record in found]

    def get(self, operation: str, *, caller: Caller) -> Progress:
        """One operation. Raises OperationNotFound, also for another tenant's."""
        caller.need("viewer")
        record = self._store.read(lambda session: stored.get(session, operation))
        if record is None or (caller.tenant is not None and record.tenant != caller.tenant):
            message = f"There is no operation {operation[:80]!r}."
            raise OperationNotFound(message, param="id", found=operation[:80])
        return self._shown(record)

    def rows(
        self, operation: str, *, state: ItemState | None = None, offset: int = 0, limit: int = 100, caller: Caller
    ) -> list[ItemRecord]:
        """Its rows in their order."""
        self.get(operation, caller=caller)
        return self._store.read(lambda session: stored.items(session, operation, state=state, offset=offset, limit=limit))

    def cancel(self, operation: str, *, caller: Caller) -> Progress:
        """Take no more rows; those that are taken in stay. ``resume`` goes on. Raises Conflict when it has ended."""
        record = self._mine(operation, caller)
        if record.state not in UNFINISHED:
            raise Conflict(f"The operation is {record.state}; there is nothing to cancel.", code="operation_ended", found=record.state)
        self._change(operation, state="cancelled", ended_unix=time.time())
        if self._work is not None and self._work.operation == operation:
            self._work.halted.set()
        return self.get(operation, caller=caller)

    def resume(self, operation: str, *, caller: Caller) -> Progress:
        """Go on with the rows that wait, after ``cancel`` or a failure. Raises Conflict when none waits."""
        record = self._mine(operation, caller)
        if record.state in UNFINISHED or record.done + record.failed >= record.total:
            raise Conflict(f"The operation is {record.state}; no row waits.", code="nothing_to_resume", found=record.state)
        self._enqueue(operation)
        return self.get(operation, caller=caller)

    def retry(self, operation: str, *, caller: Caller) -> Progress:
        """Try the rejected rows again, as after their files were put right. Raises Conflict when there is none."""
        record = self._mine(operation, caller)
        if record.state in UNFINISHED or not self._store.write(lambda session: stored.wait_again(session, operation)):
            raise Conflict(f"The operation is {record.state}; no rejected row can be tried now.", code="nothing_to_retry")
        self._enqueue(operation)
        return self.get(operation, caller=caller)

    def _mine(self, operation: str, caller: Caller) -> OperationRecord:
        caller.need("operator")
        return self.get(operation, caller=caller).record

    def _enqueue(self, operation: str) -> None:
        self._change(operation, state="queued", ended_unix=None, message="")
        with self._wake:
            self._waiting.append(operation)
            self._wake.notify_all()

    def _change(self, operation: str, **values: object) -> None:
        self._store.write(lambda session: stored.change(session, operation, **values))

    def _shown(self, record: OperationRecord) -> Progress:
        work = self._work
        if work is None or work.operation != record.id or record.state != "running":
            return Progress(record=record)
        per_s = work.per_s()
        left = record.total - record.done - record.failed
        return Progress(record=record, per_s=per_s, eta_s=left / per_s if per_s else None)

    def _upload(self, name: str) -> Path | None:
        return self.uploads / name if name else None

    # The thread

    def _run(self) -> None:
        while (operation := self._next()) is not None:
            try:
                self._do(operation)
            except LoradeckError as error:
                self._end(operation, "failed", error.message)
            except OSError as error:
                self._end(operation, "failed", f"Images cannot be written: {error.strerror}. Put that right, then resume.")
            except Exception:
                log.exception("operation %s failed", operation)
                self._end(operation, "failed", "Something went wrong inside Loradeck; the log has the details. Resume goes on.")
            self._work = None

    def _next(self) -> str | None:
        with self._wake:
            self._wake.wait_for(lambda: self._stopping or self._waiting)
            return None if self._stopping else self._waiting.popleft()

    def _do(self, operation: str) -> None:
        record = self._store.read(lambda session: stored.get(session, operation))
        if record is None or record.state not in UNFINISHED:
            return  # cancelled while it waited
        self._change(operation, state="running", started_unix=record.started_unix or time.time())
        kind = record.options.get("by_kind", "system")
        caller = Caller(name=record.created_by, kind=kind, role="operator", tenant=record.tenant)
        batch = Batch(self._host, self._registrar, upload=self._upload(record.options.get("upload", "")), caller=caller)
        self._work = Work(operation, self._host, batch, told=lambda: self._tell(operation, seldom=True))
        self._tell(operation)
        if self._work.run():
            keep_rows(record.total, tidy=False)
            self._end(operation, "done")

    def _end(self, operation: str, state: OperationState, message: str = "") -> None:
        """Unless it was cancelled or asked for again meanwhile."""

        def work(session: Session) -> OperationRecord | None:
            record = stored.get(session, operation)
            if record is None or record.state != "running":
                return None
            stored.change(session, operation, state=state, message=message, ended_unix=time.time())
            return record

        try:
            record = self._store.write(work)
        except RegistryUnavailable:
            log.warning("operation %s: the registry is away, so its end is not stored; it is carried on at the next start", operation)
            return
        if record is not None and state == "done" and not record.failed and record.options.get("upload"):
            (self.uploads / record.options["upload"]).unlink(missing_ok=True)
        self._tell(operation)

    def _tell(self, operation: str, *, seldom: bool = False) -> None:
        """An event for those who watch; with ``seldom`` at most one a second."""
        now_s = time.monotonic()
        if seldom and now_s - self._told_s < TOLD_EVERY_S:
            return
        self._told_s = now_s
        record = self._store.read(lambda session: stored.get(session, operation))
        if record is not None:
            self._host.publisher.record_event(changed(record))
