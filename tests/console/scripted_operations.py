"""Imports made of rows and a clock: the public face of ``engine.operations``, with the product's own manifest reader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from engine import AdapterId, Caller, Conflict, DryRun, Import, ItemRecord, Judged, OperationRecord, Progress, TenantId
from engine.intake.errors_csv import csv_head, csv_lines
from engine.intake.manifest import read_manifest
from engine.intake.row import Fault, ImportRow
from engine.intake.staging import Staging
from engine.intake.uploads import Uploads
from engine.registry.store import Store

PER_S = 40.0
MOST_BYTES = 2**31


@dataclass
class Operation:
    """One import under way: rows end at ``PER_S`` a second."""

    record: OperationRecord
    rows: list[Judged]
    begun_s: float = field(default_factory=time.monotonic)
    before: int = 0
    """Rows that had ended when it was begun or resumed."""

    def settle(self) -> Progress:
        """As far as the clock says."""
        if self.record.state != "running":
            return Progress(record=self.record)
        at_end = min(len(self.rows), self.before + int((time.monotonic() - self.begun_s) * PER_S))
        failed = sum(judged.outcome == "rejected" for judged in self.rows[:at_end])
        state = "done" if at_end == len(self.rows) else "running"
        self.record = replace(self.record, done=at_end - failed, failed=failed, state=state)  # type: ignore[arg-type]
        left = len(self.rows) - at_end
        return Progress(record=self.record, per_s=PER_S, eta_s=left / PER_S) if left else Progress(record=self.record)


class ScriptedOperations:
    """Rows whose source holds ``bad`` are rejected, ``same`` unchanged, ``newer`` updated."""

    def __init__(self, data: Path) -> None:
        self.uploads = Uploads(Staging(data / "staging", max_weights_bytes=1), cast("Store", None), max_bytes=MOST_BYTES)
        self._all: dict[str, Operation] = {}

    def dry_run(self, request: Import, *, offset: int, limit: int, caller: Caller) -> DryRun:
        """Some rows, judged."""
        caller.need("operator")
        rows = self._rows(request)
        return DryRun(total=len(rows), offset=offset, rows=tuple(_judge(row) for row in rows[offset : offset + limit]))

    def start(self, request: Import, *, caller: Caller) -> Progress:
        """Queue and begin."""
        caller.need("operator")
        rows = [_judge(row) for row in self._rows(request)]
        record = OperationRecord(
            id=f"op{len(self._all) + 1}",
            kind=f"import.{request.kind}",
            state="running",
            tenant=None,
            options=request.options | {"base_digest": "b" * 64},
            total=len(rows),
            created_unix=time.time(),
            created_by=caller.name,
        )
        self._all[record.id] = Operation(record, rows)
        return self._all[record.id].settle()

    def page(self, *, offset: int = 0, limit: int = 100, caller: Caller) -> list[Progress]:
        """Newest first."""
        caller.need("viewer")
        return [one.settle() for one in reversed(self._all.values())][offset : offset + limit]

    def get(self, operation: str, *, caller: Caller) -> Progress:
        """One."""
        caller.need("viewer")
        return self._all[operation].settle()

    def rows(self, operation: str, *, state: Any = None, offset: int = 0, limit: int = 100, caller: Caller) -> list[ItemRecord]:
        """Its rows."""
        caller.need("viewer")
        one = self._all[operation]
        one.settle()
        at_end = one.record.done + one.record.failed
        items = [_item(number, judged, ended=number < at_end) for number, judged in enumerate(one.rows)]
        return [item for item in items if state in {None, item.state}][offset : offset + limit]

    def errors_csv(self, operation: str, *, caller: Caller) -> Iterator[bytes]:
        """Those that are rejected."""
        yield csv_head()
        yield csv_lines(self.rows(operation, state="rejected", limit=10_000, caller=caller))

    def cancel(self, operation: str, *, caller: Caller) -> Progress:
        """Stop."""
        caller.need("operator")
        one = self._all[operation]
        if one.settle().record.state != "running":
            raise Conflict("The operation is done; there is nothing to cancel.", code="operation_ended")
        one.record = replace(one.record, state="cancelled")
        return one.settle()

    def resume(self, operation: str, *, caller: Caller) -> Progress:
        """Go on."""
        caller.need("operator")
        one = self._all[operation]
        one.before, one.begun_s = one.record.done + one.record.failed, time.monotonic()
        one.record = replace(one.record, state="running")
        return one.settle()

    def retry(self, operation: str, *, caller: Caller) -> Progress:
        """Look at the rejected again: they are taken in."""
        caller.need("operator")
        one = self._all[operation]
        one.rows = [replace(judged, outcome="new", fault=None) if judged.fault else judged for judged in one.rows]
        one.before, one.begun_s = 0, time.monotonic()
        one.record = replace(one.record, state="running")
        return one.settle()

    def _rows(self, request: Import) -> list[ImportRow]:
        if request.kind == "manifest":
            return read_manifest(request.manifest.encode(), request.form or "csv")
        if request.kind == "base":
            sources = [f"/data/{'bad' if line % 5 == 0 else 'newer'}-{line}" for line in range(1, 31)]
            return [ImportRow(line=line, source=source, alias=f"acme/line-{line}") for line, source in enumerate(sources, start=1)]
        return [ImportRow(line=line, source=f"{request.source}/{line}", alias=f"{request.alias}/{line}") for line in range(1, 31)]


def _judge(row: ImportRow) -> Judged:
    if row.fault is not None:
        return Judged(row=row, outcome="rejected", fault=row.fault)
    if "bad" in row.source:
        fault = Fault(code="shape_mismatch", message="layers.0.q_proj.lora_B has the wrong shape for this base.", param="q_proj")
        return Judged(row=row, outcome="rejected", fault=fault)
    outcome = "unchanged" if "same" in row.source else "updated" if "newer" in row.source else "new"
    return Judged(row=replace(row, tenant=TenantId("default")), outcome=outcome, adapter=AdapterId("0" * 32))  # type: ignore[arg-type]


def _item(number: int, judged: Judged, *, ended: bool) -> ItemRecord:
    data = judged.row.as_json()
    if not ended:
        return ItemRecord(number=number, state="waiting", data=data)
    if judged.fault is not None:
        return ItemRecord(
            number=number, state="rejected", data=data, outcome="rejected", code=judged.fault.code, message=judged.fault.message
        )
    return ItemRecord(number=number, state="done", data=data, outcome=judged.outcome)
