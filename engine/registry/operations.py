"""Operations and their rows, in a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, func, insert, or_, update
from sqlmodel import Session, col, select

from engine.ids import TenantId
from engine.operation import ItemRecord, OperationRecord
from engine.registry.tables import ItemTable, OperationTable, core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.operation import ItemState, OperationState

UPLOADED = "import.upload"
SETTLED = ("state", "outcome", "result", "code", "message", "ended_unix")
"""Columns that tell how a row ended."""


def put(session: Session, operation: OperationRecord) -> None:
    """Store a new one."""
    session.add(OperationTable(**asdict(operation)))
    session.flush()


def put_items(session: Session, operation: str, items: Iterable[ItemRecord]) -> None:
    """Store rows of it."""
    rows = [asdict(item) | {"operation": operation} for item in items]
    if rows:
        session.execute(insert(ItemTable), rows)


def change(session: Session, operation: str, **values: Any) -> None:  # noqa: ANN401 - the table's own columns
    """Set columns of one."""
    session.execute(update(OperationTable).where(col(OperationTable.id) == operation).values(**values))


def get(session: Session, operation: str) -> OperationRecord | None:
    """As it is stored."""
    row = session.get(OperationTable, operation)
    return None if row is None else _record(row)


def page(
    session: Session, *, tenant: TenantId | None = None, states: Sequence[OperationState] = (), offset: int = 0, limit: int = 100
) -> list[OperationRecord]:
    """Newest first; ``tenant`` None is everybody's."""
    query = select(OperationTable).order_by(col(OperationTable.created_unix).desc(), col(OperationTable.id))
    if tenant is not None:
        query = query.where(OperationTable.tenant == tenant)
    if states:
        query = query.where(col(OperationTable.state).in_(states))
    return [_record(row) for row in session.exec(query.offset(offset).limit(limit))]


def uploads_needed(session: Session, *, since_unix: float) -> set[str]:
    """Archives of operations with a row that waits, or that was rejected and may be tried again: unless they ended before a time."""
    table = OperationTable
    waits = col(table.done) + col(table.failed) < col(table.total)
    may_be_tried = and_(col(table.failed) > 0, or_(col(table.ended_unix).is_(None), col(table.ended_unix) >= since_unix))
    query = select(table.options).where(table.kind == UPLOADED, or_(waits, may_be_tried))
    return {options["upload"] for options in session.exec(query)}


def items(
    session: Session, operation: str, *, state: ItemState | None = None, after: int = -1, offset: int = 0, limit: int = 100
) -> list[ItemRecord]:
    """Rows of it in their order; those ``after`` a number."""
    query = select(ItemTable).where(ItemTable.operation == operation, ItemTable.number > after).order_by(col(ItemTable.number))
    if state is not None:
        query = query.where(ItemTable.state == state)
    return [_item(row) for row in session.exec(query.offset(offset).limit(limit))]


def count_items(session: Session, operation: str) -> dict[str, int]:
    """How many rows are in each state."""
    query = select(ItemTable.state, func.count()).where(ItemTable.operation == operation).group_by(ItemTable.state)
    return dict(session.exec(query).all())


def count_codes(session: Session, operation: str) -> dict[str, int]:
    """How many rows were rejected by each code, the most frequent first."""
    number = func.count().label("number")
    query = select(ItemTable.code, number).where(ItemTable.operation == operation, ItemTable.state == "rejected")
    rows = session.exec(query.group_by(ItemTable.code).order_by(number.desc(), col(ItemTable.code))).all()
    return {code or "": count for code, count in rows}


def settle(session: Session, operation: str, items: Sequence[ItemRecord]) -> None:
    """Rows have come to an end; the operation's counts follow in the same transaction."""
    if items:
        table = core(ItemTable)
        which = table.c.operation == operation, table.c.number == bindparam("item")
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in SETTLED}
        rows = [{"item": item.number} | {f"new_{name}": getattr(item, name) for name in SETTLED} for item in items]
        session.connection().execute(update(table).where(*which).values(values), rows)
        session.expire_all()
    failed = sum(item.state == "rejected" for item in items)
    counts = {"done": OperationTable.done + len(items) - failed, "failed": OperationTable.failed + failed}
    change(session, operation, **counts)


def wait_again(session: Session, operation: str) -> int:
    """Rejected rows wait again; how many."""
    where = (col(ItemTable.operation) == operation, col(ItemTable.state) == "rejected")
    again = session.exec(select(func.count()).select_from(ItemTable).where(*where)).one()
    session.execute(update(ItemTable).where(*where).values(state="waiting", outcome="", code=None, message="", ended_unix=None))
    change(session, operation, failed=0)
    return again


def _record(row: OperationTable) -> OperationRecord:
    values = {name: getattr(row, name) for name in OperationRecord.__dataclass_fields__}
    return OperationRecord(**values | {"tenant": None if row.tenant is None else TenantId(row.tenant)})


def _item(row: ItemTable) -> ItemRecord:
    return ItemRecord(**{name: getattr(row, name) for name in ItemRecord.__dataclass_fields__})
