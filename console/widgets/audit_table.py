"""The audit log, a page at a time, with a filter, an export, and the check of its chain."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from console import format as fmt
from console.audit_summary import summary
from console.audit_view import SPANS
from console.record_diff import as_csv, as_jsonl
from console.widgets.elements import box, button, choice, drawing, enable, field, icon_svg, say, text
from console.widgets.grid import Cell, Column, Grid, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from console.audit_view import AuditView
    from engine import AuditRecord

COLUMNS: Final = (
    Column(key="when", label="When", width="112px"),
    Column(key="who", label="Who", width="minmax(72px,112px)"),
    Column(key="what", label="Action", width="132px"),
    Column(key="object", label="Object", width="minmax(110px,1.1fr)"),
    Column(key="change", label="What changed", width="minmax(120px,1.5fr)"),
    Column(key="tenant", label="Tenant", width="minmax(64px,104px)"),
)
FILTERS: Final = (("by", "Who"), ("action", "Action"), ("object", "Object"), ("tenant", "Tenant"))
EXPORTED: Final = 50_000
DIGEST: Final = re.compile(r"^([0-9a-f]{16})[0-9a-f]{48}$")
"""A base by its digest: as much of it as the list of bases shows; the drawer shows all."""
FORMATS: Final[dict[str, Callable[[Iterable[AuditRecord]], bytes]]] = {"csv": as_csv, "jsonl": as_jsonl}


def audit_bar(view: AuditView) -> None:
    """Each filter asks for exactly what it says; a span of time; export."""
    with box("filter-bar audit-bar"):
        for name, label in FILTERS:
            if name == "tenant" and view.desk.caller.tenant is not None:
                continue
            find = field(
                f"Filter {label.lower()}", value=getattr(view.query, name), placeholder=label, on_change=partial(_changed, view, name)
            )
            find.classes("narrow").props("debounce=400 clearable")
            view.on_change(partial(_follow, view, name, find))
        choice("When", SPANS, view.query.hours, lambda hours: view.change(hours=hours))
        box("gap")
        _chain(view)
        for kind in FORMATS:
            button(
                kind.upper(),
                partial(_export, view, kind),
                glyph="download",
                small=True,
                hint=f"Export what fits the filter as {kind.upper()}",
            )


def _changed(view: AuditView, name: str, event: Any) -> None:  # noqa: ANN401 - a value event
    value = (event.value or "").strip()
    if value != getattr(view.query, name):
        view.change(**{name: value})


def _follow(view: AuditView, name: str, find: Any) -> None:  # noqa: ANN401 - an input
    if (find.value or "").strip() != getattr(view.query, name):
        find.value = getattr(view.query, name)


def _chain(view: AuditView) -> None:
    """Each line carries the hash of the one before; the check reads them all."""
    if view.desk.caller.tenant is not None:
        return
    with box("chain").props("role=status"):
        mark = drawing(icon_svg("unknown", "unknown"), "ico", "span")
        state = text("Chain not checked", "muted")

        async def check() -> None:
            say(state, "Checking the chain…")
            got = await view.desk.do("The chain was not checked", view.desk.engine.audit.verify)
            broken = got[0] if got else None
            level, words_ = ("unknown", "Chain not checked") if got is None else ("check", f"Chain verified {fmt.clock(time.time())}")
            if broken is not None:
                level, words_ = "crit", f"Line {broken} is not as it was written"
            mark.content = icon_svg(level, {"check": "ok"}.get(level, level))
            say(state, words_)

        button("Verify", check, kind="quiet", small=True, hint="Read every line and compare the hashes")


async def _export(view: AuditView, kind: str) -> None:
    """Page by page off the loop, so that a long log does not hold up others."""
    lines: list[AuditRecord] = []
    before: int | None = None
    while len(lines) < EXPORTED:
        got = await view.desk.do("Not exported", view.desk.engine.audit.lines, **view.query.fields(time.time()), before=before, limit=1000)
        if got is None:
            return
        lines += got[0]
        if len(got[0]) < 1000:  # noqa: PLR2004 - the last page
            break
        before = got[0][-1].key
    ui.download.content(FORMATS[kind](lines), f"audit-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.{kind}")
    most = " (the newest; narrow the filter for the rest)" if len(lines) >= EXPORTED else ""
    view.desk.toasts.show(f"Exported {fmt.plural(len(lines), 'line')}{most}", glyph="download")


def audit_table(view: AuditView) -> None:
    """Rows and the way to older ones."""
    with box("card table-card audit-list", "section").props('aria-label="Audit log"'):
        with box("scroll"):
            grid = Grid(COLUMNS, label="Audit log", keys=True)
        with box("pager"):
            span = text("")
            box("gap")
            button("Refresh", lambda: view.ask(view.query), kind="quiet", small=True)
            before = button("", view.newer, kind="quiet", glyph="prev", small=True, hint="Newer")
            after = button("", view.older, kind="quiet", glyph="next", small=True, hint="Older")
    grid.when("open", lambda key: view.show(None if str(view.query.open) == key else int(key)))

    def update() -> None:
        now = time.time()
        grid.show([_row(line, view, now) for line in view.lines])
        filtered = view.query.address != "/audit"
        empty = "Reading…" if not view.is_asked else "No line fits this filter." if filtered else "Nothing has been changed yet."
        grid.assume(open=str(view.query.open or ""), empty=empty)
        lines = view.lines
        say(span, f"{fmt.plural(len(lines), 'line')}, {lines[0].key:,} to {lines[-1].key:,}" if lines else "")
        enable(before, view.query.before is not None)
        enable(after, view.has_older)

    view.on_change(update)


def _row(line: AuditRecord, view: AuditView, now_unix: float) -> dict[str, Any]:
    cells: list[list[Cell]] = [
        [words(fmt.moment(line.at_unix, now_unix), "faint")],
        [words(line.by, "name")],
        [words(line.action, "code")],
        [words(DIGEST.sub(r"\1", line.object), "name")],
        [*_tags(line, view), words(summary(line), "muted")],
        [words(line.tenant or "all", "" if line.tenant else "faint")],
    ]
    return {"id": str(line.key), "name": line.object, "cells": cells}


def _tags(line: AuditRecord, view: AuditView) -> list[Cell]:
    """What it took back, or that it was."""
    tags = [words(f"takes back {line.undo_of:,}", "tag")] if line.undo_of is not None else []
    return [*tags, words("taken back", "tag")] if line.key in view.undone else tags
