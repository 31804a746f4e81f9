"""An operation comes to rest: its state, and a line in the audit log for what it refused. In a session."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from engine.audit_record import Subject
from engine.caller import Caller
from engine.registry import audit, operations

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.operation import OperationRecord, OperationState

NOTED = "noted"
"""The option that says how many refused rows the audit log knows of, by code."""


def rest(
    session: Session, record: OperationRecord, state: OperationState, *, message: str = "", code: str = "", by: Caller | None = None
) -> None:
    """Done, failed with a ``code``, or cancelled ``by`` somebody. Rows refused since the last rest are a line: how many by which code."""
    codes = operations.count_codes(session, record.id)
    options = record.options | {"code": code, NOTED: codes}
    operations.change(session, record.id, state=state, message=message, options=options, ended_unix=time.time())
    since = Counter(codes) - Counter(record.options.get(NOTED, {}))
    if since:
        after = {"rejected": since.total(), "of": record.total, "codes": dict(since), "kind": record.kind, "operation": state}
        audit.append(session, by or owner(record), "adapter.reject", Subject("operation", record.id, record.tenant), after=after)


def again(session: Session, record: OperationRecord) -> int:
    """Refused rows wait, and what is refused anew is noted anew; how many."""
    operations.change(session, record.id, options=record.options | {NOTED: {}})
    return operations.wait_again(session, record.id)


def owner(record: OperationRecord) -> Caller:
    """Who began it, as whom its rows are taken in."""
    kind = record.options.get("by_kind", "system")
    return Caller(name=record.created_by, kind=kind, role="operator", tenant=record.tenant)
