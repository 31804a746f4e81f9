"""Tenants, those that wait most first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.feed import tenant_series
from console.widgets.elements import box, say, text
from console.widgets.grid import Cell, Column, Grid, bar, number, spark, words

if TYPE_CHECKING:
    from console.feed import Feed
    from console.live import Live
    from engine import TenantRow

SHOWN: Final = 8
TREND: Final = (58, 18)
COLUMNS: Final = (
    Column(key="tenant", label="Tenant", width="minmax(106px,1fr)"),
    Column(key="rps", label="Req/s", width="48px", cls="num"),
    Column(key="p50", label="TTFT p50", width="66px", cls="num"),
    Column(key="p95", label="p95", width="64px", cls="num"),
    Column(key="p99", label="p99", width="66px", cls="num", title="Shown from 100 requests in the window on"),
    Column(key="cold", label="Cold", width="86px", cls="num", title="Share of adapter requests that had to wait for their adapter"),
    Column(key="waiting", label="Waiting", width="58px", cls="num"),
    Column(key="why", label="Why they wait · share of wait", width="218px"),
    Column(key="trend", label="p95 trend", width="66px", cls="num"),
)


def tenant_card(live: Live) -> None:
    """The table and its foot."""
    with box("card tenants", "section").props('aria-label="Tenants by wait"'):
        with box("card-head"):
            text("Tenants by wait", "card-title", "h2")
            window = text("", "sub")
        grid = Grid(COLUMNS, label="Tenants", empty="No tenant has sent a request yet.")
        with box("card-foot"):
            more = text("")
            text("– fewer than 100 requests", "end")

    def update() -> None:
        snapshot = live.feed.snapshot
        rows = by_pain(snapshot.tenants)
        grid.show([_row(row, live.feed) for row in rows[:SHOWN]])
        say(window, f"waiting, then TTFT p95 · last {fmt.duration(snapshot.rates.window_s)}")
        say(more, f"{fmt.plural(len(rows) - SHOWN, 'more tenant')}" if len(rows) > SHOWN else "")

    live.every(update)


def by_pain(rows: tuple[TenantRow, ...]) -> list[TenantRow]:
    """Most waiting first, then the slowest first token, then the busiest."""
    return sorted(rows, key=lambda row: (-row.waiting, -(row.ttft_p95_s or 0.0), -row.requests_per_s, row.tenant))


def _row(row: TenantRow, feed: Feed) -> dict[str, Any]:
    cells = [
        [words(row.tenant, "name")],
        [words(fmt.rate(row.requests_per_s))],
        number(*fmt.latency(row.ttft_p50_s)),
        number(*fmt.latency(row.ttft_p95_s)),
        number(*fmt.latency(row.ttft_p99_s)),
        _cold(row.cold_share),
        [words(fmt.count(row.waiting), "" if row.waiting else "zero")],
        _why(row),
        [spark(feed.spark(tenant_series(row.tenant), *TREND), *TREND)],
    ]
    return {"id": row.tenant, "cells": cells, "still": True}


def _cold(share: float | None) -> list[Cell]:
    if share is None:
        return [words(fmt.DASH, "n"), words("", "u")]
    return [bar([("f-load", share), ("track", 1 - share)], 24), words(fmt.percent(share), "n"), words("%", "u")]


def _why(row: TenantRow) -> list[Cell]:
    if not row.wait_shares:
        return [words(fmt.DASH, "faint")]
    reason, share = row.wait_shares[0]
    return [
        bar([(f"w-{code}", part) for code, part in row.wait_shares], 36),
        words(reason, "code"),
        words(f"{fmt.percent(share, 0)} %", "faint"),
    ]
