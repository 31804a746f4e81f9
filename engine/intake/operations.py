"""Imports as operations: stored row by row, followed, cancelled, resumed and tried again; ``worker`` does them."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from engine.errors import Conflict, InvalidRequest, OperationNotFound
from engine.intake.batch import Batch
from engine.intake.ending import again, rest
from engine.intake.errors_csv import csv_head, csv_lines
from engine.intake.importing import read_rows
from engine.intake.progress import DryRun, Progress, first_item
from engine.intake.upgrade import Upgrade, read_base
from engine.intake.uploads import Uploads
from engine.intake.worker import Worker
from engine.operation import UNFINISHED, OperationRecord
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlmodel import Session

    from engine.caller import Caller
    from engine.intake.importing import Import
    from engine.intake.row import ImportRow
    from engine.model_host import ModelHost
    from engine.operation import ItemRecord, ItemState
    from engine.registration import Registrar

ROWS_TOGETHER = 1000
"""Rows stored in one transaction when an operation is made, and read in one go."""
JUDGED_TOGETHER = 2


class Operations:
    """Any thread asks. What was unfinished when the process ended is carried on at the next start."""

    def __init__(self, host: ModelHost, registrar: Registrar) -> None:
        self._host = host
        self._registrar = registrar
        self._store = host.catalog.store
        self.uploads = Uploads(registrar.sources.staging, self._store, max_bytes=host.parts.settings.max_upload)
        self._worker = Worker(host, registrar, uploads=self.uploads)

    def begin(self) -> Callable[[], None]:
        """Carry on with what an earlier process left; what ends it is returned. Raises RegistryUnavailable."""
        unfinished = self._store.read(lambda session: stored.page(session, states=(*UNFINISHED, "reading"), limit=10_000))
        for operation in unfinished:
            if operation.state == "reading":
                message = "Loradeck ended while its rows were stored; send the import again."
                self._change(operation.id, state="failed", message=message, ended_unix=time.time())
        self.uploads.sweep_all()
        self._worker.begin(operation.id for operation in reversed(unfinished) if operation.state in UNFINISHED)
        return self._worker.stop

    def dry_run(self, request: Import, *, offset: int, limit: int, caller: Caller) -> DryRun:
        """Judge some rows; reads their files and changes nothing. Blocks: call it in a thread."""
        caller.need("operator")
        rows, upgrade = self._rows(request, caller)
        upload = self.uploads.path(request.upload) if request.upload else None
        batch = Batch(self._host, self._registrar, upload=upload, upgrade=upgrade, caller=caller)
        with ThreadPoolExecutor(JUDGED_TOGETHER, thread_name_prefix="judge") as pool:
            judged = tuple(pool.map(batch.judge, rows[offset : offset + limit]))
        return DryRun(total=len(rows), offset=offset, rows=judged)

    def start(self, request: Import, *, caller: Caller) -> Progress:
        """Store the rows and queue the work. Blocks: call it in a thread. Raises Forbidden, InvalidRequest, SourceNotAllowed."""
        caller.need("operator")
        rows, upgrade = self._rows(request, caller)
        served = self._host.parts.spec.digest
        if upgrade is not None and upgrade.spec.digest != served:
            message = f"{upgrade.spec.name} does not serve. Start Loradeck with it, then register again."
            raise Conflict(message, code="base_not_served", param="source", expected=served, found=upgrade.spec.digest)
        record = OperationRecord(
            id=uuid.uuid4().hex,
            kind=f"import.{request.kind}",
            state="reading",
            tenant=caller.tenant,
            options=request.options | {"by_kind": caller.kind, "base_digest": served},
            total=len(rows),
            failed=sum(row.fault is not None for row in rows),
            created_unix=time.time(),
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

    def errors_csv(self, operation: str, *, caller: Caller) -> Iterator[bytes]:
        """Its rejected rows as CSV, in parts as they are read. Raises as ``get``, before the first part."""
        self.get(operation, caller=caller)
        return self._errors_csv(operation)

    def _errors_csv(self, operation: str) -> Iterator[bytes]:
        yield csv_head()
        last = -1
        while part := self._store.read(partial(stored.items, operation=operation, state="rejected", after=last, limit=ROWS_TOGETHER)):
            yield csv_lines(part)
            last = part[-1].number

    def cancel(self, operation: str, *, caller: Caller) -> Progress:
        """Take no more rows; those that are taken in stay. ``resume`` goes on. Raises Conflict when it has ended."""
        self._mine(operation, caller)

        def work(session: Session) -> None:
            record = stored.get(session, operation)
            if record is None or record.state not in UNFINISHED:
                state = None if record is None else record.state
                raise Conflict(f"The operation is {state}; there is nothing to cancel.", code="operation_ended", found=state)
            rest(session, record, "cancelled", by=caller)

        self._store.write(work)
        self._worker.halt(operation)
        return self.get(operation, caller=caller)

    def resume(self, operation: str, *, caller: Caller) -> Progress:
        """Go on with the rows that wait, after ``cancel`` or a failure. Raises Conflict when none waits, or their archive is gone."""
        record = self._mine(operation, caller)
        if record.state in UNFINISHED or record.done + record.failed >= record.total:
            raise Conflict(f"The operation is {record.state}; no row waits.", code="nothing_to_resume", found=record.state)
        self.uploads.check(record)
        self._enqueue(operation)
        return self.get(operation, caller=caller)

    def retry(self, operation: str, *, caller: Caller) -> Progress:
        """Try the rejected rows again, as after their files were put right. Raises Conflict when there is none, or its archive is gone."""
        record = self._mine(operation, caller)
        self.uploads.check(record)
        if record.state in UNFINISHED or not self._store.write(lambda session: again(session, record)):
            raise Conflict(f"The operation is {record.state}; no rejected row can be tried now.", code="nothing_to_retry")
        self._enqueue(operation)
        return self.get(operation, caller=caller)

    def _mine(self, operation: str, caller: Caller) -> OperationRecord:
        caller.need("operator")
        return self.get(operation, caller=caller).record

    def _enqueue(self, operation: str) -> None:
        self._change(operation, state="queued", ended_unix=None, message="")
        self._worker.add(operation)

    def _change(self, operation: str, **values: object) -> None:
        self._store.write(lambda session: stored.change(session, operation, **values))

    def _shown(self, record: OperationRecord) -> Progress:
        work = self._worker.work
        if work is None or work.operation != record.id or record.state != "running":
            return Progress(record=record)
        per_s = work.per_s()
        left = record.total - record.done - record.failed
        return Progress(record=record, per_s=per_s, eta_s=left / per_s if per_s else None, stalled=work.stalled)

    def _rows(self, request: Import, caller: Caller) -> tuple[list[ImportRow], Upgrade | None]:
        if request.kind != "base":
            return read_rows(request, self._registrar.sources, caller), None
        host = self._host
        upgrade = Upgrade(host, read_base(request.source, host.parts.settings) if request.source else host.parts.spec)
        rows = upgrade.rows(request, caller)
        if not rows:
            message = f"Every name leads to a version of {upgrade.spec.name} already."
            raise InvalidRequest(message, code="nothing_found", param="source", found=upgrade.spec.digest[:16])
        return rows, upgrade
