"""What a tenant used, day by day."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks

from console import format as fmt
from console.widgets.elements import box, text
from console.widgets.grid import Column, Grid, bar, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.desk import Desk
    from console.tenants_view import TenantLine
    from engine import UsageRow

DAYS: Final = 30
COLUMNS: Final = (
    Column(key="day", label="Day, UTC", width="80px"),
    Column(key="bar", label="", width="minmax(24px,1fr)"),
    Column(key="tokens", label="Tokens", width="62px", cls="num", title="Prompt and output"),
    Column(key="requests", label="Requests", width="60px", cls="num"),
    Column(key="cold", label="Cold", width="36px", cls="num", title="Requests that had to wait for their adapter"),
    Column(key="errors", label="Errors", width="42px", cls="num"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUse:
    """Sums of one day."""

    day: str
    tokens: int
    requests: int
    cold: int
    errors: int


class UsageCard:
    """The last thirty days that had traffic."""

    def __init__(self, line: TenantLine, desk: Desk) -> None:
        self._tenant, self._desk = line.record.id, desk
        with box("section usage") as self._card:
            with box("section-head"):
                text("Usage", "card-title")
                text(f"{DAYS} days", "faint")
            self._body = box("usage-body")
        background_tasks.create(self._show(), context=self._card)

    async def _show(self) -> None:
        today = datetime.fromtimestamp(time.time(), UTC).date()
        rows = await self._desk.ask(
            self._desk.engine.tenants.usage,
            first=(today - timedelta(days=DAYS - 1)).isoformat(),
            last=today.isoformat(),
            tenant=self._tenant,
        )
        days = by_day(rows)
        self._body.clear()
        with self._body:
            if not days:
                text(f"No request in {DAYS} days.", "faint", "p")
                return
            grid = Grid(COLUMNS, label="Usage by day")
            most = max(day.tokens for day in days) or 1
            grid.show([_row(day, most) for day in days])


def by_day(rows: Sequence[UsageRow]) -> list[DayUse]:
    """Sums over keys and adapters, newest day first."""
    days: dict[str, list[UsageRow]] = {}
    for row in rows:
        days.setdefault(row.day, []).append(row)
    return [
        DayUse(
            day=day,
            tokens=sum(row.prompt_tokens + row.output_tokens for row in own),
            requests=sum(row.requests for row in own),
            cold=sum(row.cold_starts for row in own),
            errors=sum(row.errors for row in own),
        )
        for day, own in sorted(days.items(), reverse=True)
    ]


def _row(day: DayUse, most: int) -> dict[str, Any]:
    share = day.tokens / most
    cells = [
        [words(date.fromisoformat(day.day).strftime("%a %d %b"), "muted")],
        [bar([("f-queue", share), ("track", 1 - share)], 96)],
        [words(fmt.tokens(day.tokens))],
        [words(fmt.count(day.requests))],
        [words(fmt.count(day.cold), "" if day.cold else "zero")],
        [words(fmt.count(day.errors), "" if day.errors else "zero")],
    ]
    return {"id": day.day, "cells": cells, "still": True}
