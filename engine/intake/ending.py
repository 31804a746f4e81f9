"""An operation comes to rest: its state, and a line in the audit log for what it refused. In a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.audit_record import Subject
from engine.caller import Caller
from engine.registry import audit, operations

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.operation import OperationRecord, OperationState


def rest(
    session: Session, record: OperationRecord, state: OperationState, *, message: str = "", code: str = "", by: Caller | None = None
) -> None:
    """Done, failed with a ``code``, or cancelled ``by`` somebody. Refused rows, however many, are one line: how many for which code."""
    options = record.options | {"code": code}
    operations.change(session, record.id, state=state, message=message, options=options, ended_unix=time.time())
    codes = operations.count_codes(session, record.id)
    if codes:
        after = {"rejected": sum(codes.values()), "of": record.total, "codes": codes, "kind": record.kind, "operation": state}
        audit.append(session, by or owner(record), "adapter.reject", Subject("operation", record.id, record.tenant), after=after)


def owner(record: OperationRecord) -> Caller:
    """Who began it, as whom its rows are taken in."""
    kind = record.options.get("by_kind", "system")
    return Caller(name=record.created_by, kind=kind, role="operator", tenant=record.tenant)
