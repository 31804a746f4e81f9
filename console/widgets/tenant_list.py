"""Tenants with what they use of what they may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.widgets.elements import box, button, enable, field, icon, say, text
from console.widgets.grid import Cell, Column, Grid, bar, glyph, words
from console.widgets.tenant_dialog import tenant_dialog

if TYPE_CHECKING:
    from console.tenants_view import TenantLine, TenantsView

NEARLY: Final = 0.9
"""From this share of a limit on it is marked."""
COLUMNS: Final = (
    Column(key="tenant", label="Tenant", width="minmax(112px,1fr)"),
    Column(key="rps", label="Req/s", width="48px", cls="num"),
    Column(key="rpm", label="Requests of limit", width="138px", cls="num", title="Of the last minute"),
    Column(
        key="tpm",
        label="Tokens of limit",
        width="154px",
        cls="num",
        title="Of the last minute, prompt and output, with what calls under way may still take",
    ),
    Column(key="running", label="Running", width="78px", cls="num"),
    Column(key="waiting", label="Waiting", width="70px", cls="num"),
    Column(key="why", label="Why they wait", width="132px", title="The reason with the largest share of the time waited"),
    Column(
        key="slow",
        label="Slowdown",
        width="76px",
        cls="num",
        title="Latency of its requests of the last minute over what it would be without waits, mean",
    ),
    Column(key="month", label="Tokens this month", width="150px", cls="num", title="Prompt and output, calendar month, UTC"),
    Column(key="adapters", label="Adapters", width="66px", cls="num"),
)


def tenant_bar(view: TenantsView) -> None:
    """A filter, and the way to add one."""
    with box("filter-bar"):
        with box("find"):
            icon("search")
            find = field("Filter tenants", value=view.q, placeholder="Filter", on_change=lambda e: view.change(q=(e.value or "").strip()))
            find.props("debounce=250 clearable")
            text("/", "slash", "kbd")
        box("gap")
        add = button("Add tenant…", lambda: tenant_dialog(view), glyph="plus")
        why_not = view.desk.why_not("admin", everywhere=True)
        enable(add, not why_not, why_not)


def tenant_list(view: TenantsView) -> None:
    """The table and its foot."""
    with box("card table-card tenant-list", "section").props('aria-label="Tenants"'):
        with box("scroll"):
            grid = Grid(COLUMNS, label="Tenants", keys=True)
        with box("card-foot"):
            more = text("")
            text("– no limit, or no traffic", "end")
    grid.when("open", lambda key: view.change(open="" if view.open == key else str(key)))

    def update() -> None:
        lines, found = view.lines()
        grid.show([_row(line) for line in lines])
        grid.assume(open=view.open, empty="No tenant fits this filter." if view.q else "No tenant yet.")
        say(
            more,
            f"{fmt.plural(found - len(lines), 'more tenant')}; a filter finds them" if found > len(lines) else fmt.plural(found, "tenant"),
        )

    view.on_change(update)


def _row(line: TenantLine) -> dict[str, Any]:
    record, row, use, may = line.record, line.row, line.use, line.allowance
    name = [words(record.id, "name")]
    if record.suspended_unix is not None:
        name = [glyph("paused", "muted"), words(record.id, "name"), words("suspended", "faint")]
    cells: list[list[Cell]] = [
        name,
        [words(fmt.rate(row.requests_per_s if row else None))],
        of_limit(use.requests_minute, may.requests_per_minute),
        of_limit(use.tokens_minute, may.tokens_per_minute),
        of_limit(row.running if row else 0, may.max_running, width_px=0),
        of_limit(row.waiting if row else 0, may.max_waiting, width_px=0),
        _why(line),
        [words(fmt.DASH if line.slowdown is None else f"{line.slowdown:.2f}×", "" if line.slowdown else "faint")],
        of_limit(use.tokens_month, may.monthly_tokens),
        [words(fmt.count(line.adapters), "" if line.adapters else "zero")],
    ]
    return {"id": record.id, "name": record.id, "cells": cells}


def of_limit(used: int, limit: int | None, *, width_px: int = 36) -> list[Cell]:
    """What is used, of what; with a bar where there is a limit and a mark where it is nearly reached."""
    share = 0.0 if not limit else min(1.0, used / limit)
    parts: list[Cell] = [bar([("f-queue", share), ("track", 1 - share)], width_px)] if limit is not None and width_px else []
    if limit is not None and used >= NEARLY * limit:
        parts.append(glyph("warn", "warn"))
    return [
        *parts,
        words(fmt.tokens(used), "n" if used else "n zero"),
        words(f" / {fmt.tokens(limit)}", "of unlimited" if limit is None else "of"),
    ]


def _why(line: TenantLine) -> list[Cell]:
    if line.row is None or not line.row.wait_shares:
        return [words(fmt.DASH, "faint")]
    return [words(line.row.wait_shares[0][0], "code")]
