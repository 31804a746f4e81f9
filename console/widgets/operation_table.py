"""Operations, newest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.operation_words import STATES, share, title
from console.widgets.elements import box, button, enable, icon, say, text
from console.widgets.grid import Column, Grid, bar, glyph, words

if TYPE_CHECKING:
    from console.operations_view import OperationsView
    from engine import Progress

BAR_PX: Final = 96
COLUMNS: Final = (
    Column(key="started", label="Begun", width="84px"),
    Column(key="what", label="What", width="minmax(140px,1fr)"),
    Column(key="state", label="State", width="104px"),
    Column(key="progress", label="Progress", width="112px"),
    Column(key="count", label="Rows", width="112px", cls="num"),
    Column(key="failed", label="Rejected", width="66px", cls="num"),
    Column(key="rate", label="Rows/s", width="60px", cls="num"),
    Column(key="left", label="Time left", width="78px", cls="num"),
    Column(key="by", label="By", width="110px"),
)
EMPTY: Final = "No operation yet. Registering many adapters from an archive, a manifest or a prefix becomes one, and is followed here."


def operation_table(view: OperationsView) -> None:
    """A row opens its rows in the drawer."""
    with box("card adapter-card", "section").props('aria-label="Operations"'):
        with box("scroll"):
            grid = Grid(COLUMNS, label="Operations", keys=True).classes("operations")
        with box("stored-fault").props("role=alert") as fault:
            icon("crit", "crit")
            why = text("")
            button("Try again", view.load, small=True)
        with box("pager"):
            span = text("")
            box("gap")
            before = button("", lambda: view.change(page=view.query.page - 1), kind="quiet", glyph="prev", small=True, hint="Newer")
            after = button("", lambda: view.change(page=view.query.page + 1), kind="quiet", glyph="next", small=True, hint="Older")
    grid.when("open", lambda key: view.change(open="" if view.query.open == key else key, rows="all", rows_page=1))

    def update() -> None:
        now = time.time()
        grid.show([_row(one, now) for one in view.listed or ()])
        grid.assume(open=view.query.open, empty="" if view.listed is None or view.fault is not None else EMPTY)
        fault.set_visibility(view.fault is not None)
        say(why, view.fault.message if view.fault is not None else "")
        say(span, f"Page {view.query.page:,}")
        enable(before, view.query.page > 1)
        enable(after, view.more)

    view.on_change(update)


def _row(one: Progress, now_unix: float) -> dict[str, Any]:
    record = one.record
    done = share(record)
    cells = [
        [words(fmt.moment(record.created_unix, now_unix), "muted")],
        [words(title(record), "name")],
        [glyph(*STATES[record.state]), words(record.state)],
        [bar([("op-bar", done), ("track", 1 - done)], BAR_PX)],
        [words(f"{record.done + record.failed:,}"), words(f" of {record.total:,}", "muted pre")],
        [words(fmt.count(record.failed), "" if record.failed else "zero")],
        [words(fmt.rate(one.per_s), "" if one.per_s is not None else "faint")],
        [words(fmt.duration(one.eta_s), "" if one.eta_s is not None else "faint")],
        [words(record.created_by, "muted ellipsis")],
    ]
    return {"id": record.id, "name": title(record), "cells": cells}
