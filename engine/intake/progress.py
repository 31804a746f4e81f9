"""What is shown of imports: how far an operation is, what a dry run found, and a row before anything was opened."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.events import OperationChanged
from engine.intake.judged import Judged, item_of
from engine.operation import ItemRecord

if TYPE_CHECKING:
    from engine.intake.row import ImportRow
    from engine.operation import OperationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """An operation as it is shown. Rate and time left are known while it runs."""

    record: OperationRecord
    per_s: float | None = None
    eta_s: float | None = None
    stalled: str = ""
    """Why it waits while it runs: the registry is away, or its disk is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What would become of some rows of an import; nothing was changed."""

    total: int
    offset: int
    rows: tuple[Judged, ...]


def first_item(number: int, row: ImportRow) -> ItemRecord:
    """As it is stored before anything is opened: waiting, or rejected for what it says."""
    if row.fault is None:
        return ItemRecord(number=number, state="waiting", data=row.as_json())
    rejected = item_of(number, Judged(row=row, outcome="rejected", fault=row.fault))
    return replace(rejected, data=row.as_json())


def changed(record: OperationRecord) -> OperationChanged:
    """What those who watch are told."""
    return OperationChanged(
        at_unix=time.time(),
        by=record.created_by,
        operation=record.id,
        kind=record.kind,
        state=record.state,
        total=record.total,
        done=record.done,
        failed=record.failed,
        tenant=record.tenant,
    )
