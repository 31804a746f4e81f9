"""Requests that wait, with the reason; then those that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.widgets.elements import box, say, text
from console.widgets.grid import Column, Grid, number, words

if TYPE_CHECKING:
    from console.live import Live
    from engine import RunningRow, WaitingRow

SHOWN: Final = 8
COLUMNS: Final = (
    Column(key="model", label="Model", width="minmax(140px,1.2fr)"),
    Column(key="tenant", label="Tenant", width="minmax(80px,.6fr)"),
    Column(key="state", label="State", width="70px"),
    Column(key="reason", label="Reason or progress", width="minmax(130px,1fr)"),
    Column(key="age", label="For", width="72px", cls="num"),
    Column(key="id", label="Request", width="minmax(110px,.9fr)"),
)


def request_card(live: Live) -> None:
    """Waiting first, the oldest on top."""
    with box("card requests", "section").props('aria-label="Waiting and running requests" id=requests'):
        with box("card-head"):
            text("Requests now", "card-title", "h2")
            counts = text("", "sub")
        grid = Grid(COLUMNS, label="Requests", empty="Nothing waits and nothing runs.")
        with box("card-foot"):
            more = text("")

    def update() -> None:
        requests = live.feed.snapshot.requests
        waiting = sorted(requests.waiting, key=lambda row: -row.waited_s)
        rows = [_waiting(row) for row in waiting] + [_running(row) for row in requests.running]
        grid.show(rows[:SHOWN])
        say(counts, f"{len(waiting):,} waiting, {len(requests.running):,} running")
        say(more, f"{len(rows) - SHOWN:,} more" if len(rows) > SHOWN else "")

    live.every(update)


def _waiting(row: WaitingRow) -> dict[str, Any]:
    return _line(row.id, row.model, row.tenant, "waiting", [words(row.reason, "code")], row.waited_s)


def _running(row: RunningRow) -> dict[str, Any]:
    progress = f"{row.phase}, {row.output_tokens:,} tok" if row.phase == "decode" else f"prefill, {row.prompt_tokens:,} tok"
    return _line(row.id, row.model, row.tenant, "running", [words(progress)], row.running_s)


def _line(key: str, model: str, tenant: str, state: str, reason: list[list[Any]], age_s: float) -> dict[str, Any]:  # noqa: PLR0917 - the columns, in order
    cells = [[words(model, "name")], [words(tenant, "muted")], [words(state)], reason, number(*fmt.latency(age_s)), [words(key, "code")]]
    return {"id": key, "cells": cells, "still": True}
