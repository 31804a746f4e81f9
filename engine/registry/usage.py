"""What was served: a row a request for a month, and sums a day for good, in a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from engine.accounts import UsageRow
from engine.ids import TenantId
from engine.registry.tables import RequestTable, UsageTable

if TYPE_CHECKING:
    from engine.request import RequestRecord

KEPT_S = 31 * 86400.0
"""How long single requests are kept."""


def note(session: Session, *, record: RequestRecord, key: str | None, ended_unix: float) -> None:
    """A request has ended."""
    session.add(_request(record, key=key, ended_unix=ended_unix))
    day = datetime.fromtimestamp(ended_unix, UTC).date().isoformat()
    place = (day, record.tenant, key or "", record.adapter or "")
    row = session.get(UsageTable, place)
    if row is None:
        row = UsageTable(day=place[0], tenant=place[1], api_key=place[2], content=place[3])
        session.add(row)
    row.requests += 1
    row.prompt_tokens += record.prompt_tokens
    row.cached_tokens += record.cached_tokens
    row.output_tokens += record.completion_tokens
    row.cold_starts += record.tier_at_arrival not in {None, "device"}
    row.errors += record.finish_reason == "error"
    session.flush()


def days(session: Session, *, first: str, last: str, tenant: TenantId | None, limit: int) -> list[UsageRow]:
    """Rows from day to day, both included, newest first."""
    query = select(UsageTable).where(col(UsageTable.day) >= first, col(UsageTable.day) <= last)
    if tenant is not None:
        query = query.where(UsageTable.tenant == tenant)
    order = (col(UsageTable.day).desc(), col(UsageTable.tenant), col(UsageTable.api_key), col(UsageTable.content))
    return [_row(row) for row in session.exec(query.order_by(*order).limit(limit))]


def month(session: Session, name: str, *, by_key: bool) -> dict[str, int]:
    """Tokens since the first of a month such as ``2026-11``, by key or by tenant."""
    subject = col(UsageTable.api_key) if by_key else col(UsageTable.tenant)
    tokens = func.sum(col(UsageTable.prompt_tokens) + col(UsageTable.output_tokens))
    rows = session.exec(select(subject, tokens).where(col(UsageTable.day).startswith(name)).group_by(subject))
    return {name: int(total) for name, total in rows if name}


def forget_old(session: Session, now_unix: float) -> None:
    """Single requests are not kept for ever."""
    session.execute(delete(RequestTable).where(col(RequestTable.ended_unix) < now_unix - KEPT_S))


def _request(record: RequestRecord, *, key: str | None, ended_unix: float) -> RequestTable:
    return RequestTable(
        request=record.id,
        tenant=record.tenant,
        api_key=key,
        model=record.model,
        content=record.adapter,
        ended_unix=ended_unix,
        finish_reason=record.finish_reason,
        prompt_tokens=record.prompt_tokens,
        cached_tokens=record.cached_tokens,
        output_tokens=record.completion_tokens,
        tier=record.tier_at_arrival,
        queue_s=record.queue_s,
        load_s=record.adapter_load_s,
        ttft_s=record.ttft_s,
        total_s=record.e2e_s,
    )


def _row(row: UsageTable) -> UsageRow:
    return UsageRow(
        day=row.day,
        tenant=TenantId(row.tenant),
        key=row.api_key,
        adapter=row.content,
        requests=row.requests,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.output_tokens,
        cold_starts=row.cold_starts,
        errors=row.errors,
    )
