"""The adapters that serve, a page at a time, with a bar for what is ticked; and what does not serve, from the registry."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.query import SIZES
from console.views import STATE_GLYPHS, cold_share, is_drifting, state_of
from console.widgets.command_dialog import command_dialog
from console.widgets.elements import box, button, enable, say, text
from console.widgets.grid import Cell, Column, Grid, glyph, number, words
from console.widgets.stored_table import stored_table

if TYPE_CHECKING:
    from console.actions import Actions
    from console.adapter_view import AdapterView
    from engine import AdapterRow, Verb

COLUMNS: Final = (
    Column(key="alias", label="Alias", width="minmax(120px,1fr)", sort=True),
    Column(key="version", label="Version", width="104px", title="Number in its line, and the digest of its content"),
    Column(key="state", label="State", width="104px", sort=True),
    Column(key="rank", label="Rank", width="38px", cls="num", sort=True),
    Column(key="bytes", label="MiB", width="46px", cls="num", sort=True),
    Column(key="tier", label="Tier", width="118px", sort=True, title="Where it is, and where a pin wants it"),
    Column(key="pin", label="Pin until", width="98px"),
    Column(key="leases", label="Leases", width="50px", cls="num", sort=True, title="Running requests that hold it"),
    Column(key="rpm", label="Req/min", width="72px", cls="num", sort=True),
    Column(
        key="ttft",
        label="TTFT p95",
        width="78px",
        cls="num",
        sort=True,
        title="Time to the first token, 95th percentile of its recent requests",
    ),
    Column(key="cold", label="Cold %", width="52px", cls="num", sort=True, title="Share of its requests that had to wait for it"),
)
BULK: Final[tuple[tuple[Verb, str], ...]] = (("pin", "Pin…"), ("warm", "Warm…"), ("evict", "Evict…"))


def adapter_table(view: AdapterView, actions: Actions) -> None:
    """Head, rows, bulk bar, pager."""
    with box("card adapter-card", "section").props('aria-label="Adapters"'):
        with box("scroll") as live:
            grid = Grid(COLUMNS, label="Adapters", selectable=True, keys=True).classes("live")
        with box("scroll") as kept:
            stored_table(view)
        _bulk_bar(view, actions)
        _pager(view)
    grid.when("sort", lambda key: view.ask(view.query.sorted_by(key)))
    grid.when("open", view.open_row)
    grid.when("select", lambda what: _tick(view, what))

    def update() -> None:
        now = time.time()
        live.set_visibility(not view.query.is_stored)
        kept.set_visibility(view.query.is_stored)
        grid.show([] if view.query.is_stored else [_row(row, now) for row in view.found.rows])
        opened = view.opened
        empty = (
            "No adapter fits this view and filter."
            if view.shelf.rows
            else "No adapters yet. Register a folder, an archive, a manifest or a prefix; they are served from the next request on."
        )
        grid.assume(
            sort=view.query.sort, desc=view.query.descending, selected=list(view.ticked), open=opened.id if opened else "", empty=empty
        )

    view.on_change(update)


def _tick(view: AdapterView, what: dict[str, Any]) -> None:
    if "all" in what:
        view.tick([row.id for row in view.found.rows], on=bool(what["all"]))
    else:
        view.tick([str(what["id"])], on=what["id"] not in view.ticked)


def _row(row: AdapterRow, now_unix: float) -> dict[str, Any]:
    tenant, slash, name = row.alias.rpartition("/")
    rpm = fmt.rate(row.requests_per_min) if row.requests else fmt.DASH
    share = cold_share(row)
    cells: list[list[Cell]] = [
        [words("no name", "faint")] if row.alias == row.id else [words(tenant + slash, "muted tenant"), words(name, "name")],
        version_cell(row.number, row.id),
        state_cell(row),
        [words(str(row.rank))],
        [words(fmt.mib(row.bytes))],
        tier_cell(row),
        [glyph("pinned", "violet"), words(fmt.pin_end(row.pin_until, now_unix), "muted")] if row.pinned else [words(fmt.DASH, "faint")],
        [words(fmt.count(row.leases), "" if row.leases else "zero")],
        [words(rpm)],
        number(*fmt.latency(row.ttft_p95_s)),
        [words(fmt.percent(share))],
    ]
    return {"id": row.id, "name": row.alias, "cells": cells}


def version_cell(version: int, digest: str | None) -> list[Cell]:
    """Number within the line, then the digest."""
    return [words(str(version) if version else fmt.DASH, "vnum"), words(fmt.digest(digest) if digest else "no content", "code")]


def state_cell(row: AdapterRow) -> list[Cell]:
    """Glyph and word; a retired one that still answers says how many requests it has."""
    state: str = state_of(row)
    if state == "retired" and row.leases:
        return [glyph(*STATE_GLYPHS["draining"]), words(f"draining {row.leases}")]
    return [glyph(*STATE_GLYPHS[state]), words(state)]


def tier_cell(row: AdapterRow) -> list[Cell]:
    """Bars, the word, and where it should be when that differs."""
    cell = [glyph(row.tier), words(row.tier)]
    if is_drifting(row):
        cell.append(words(f"→ {row.pin_tier}", "faint"))
    return cell


def _bulk_bar(view: AdapterView, actions: Actions) -> None:
    with box("bulk") as bar:
        count = text("", "name")
        amount = text("", "muted")
        box("gap")
        for verb, label in BULK:
            why_not = view.versions.why_not("operator", label.removesuffix("…"))
            enable(button(label, partial(_command, view, actions, verb), glyph=verb, small=True), not why_not, why_not)
        button("", lambda: view.tick(list(view.ticked), on=False), kind="quiet", glyph="close", small=True, hint="Untick all")

    def update() -> None:
        rows = view.ticked_rows
        bar.set_visibility(bool(rows) and not view.query.is_stored)
        say(count, f"{len(rows):,} selected")
        say(amount, f"{fmt.size(sum(row.bytes for row in rows))}, {fmt.plural(sum(row.pages for row in rows), 'page')}")

    view.on_change(update)


def _command(view: AdapterView, actions: Actions, verb: Verb) -> None:
    command_dialog(verb, view.ticked_rows, actions)


def _pager(view: AdapterView) -> None:
    with box("pager"):
        span = text("")
        total = text("", "faint")
        box("gap")
        sizes = {size: _size_button(view, size) for size in SIZES}
        page = text("", "page-word")
        before = button("", lambda: view.change(page=shown().page - 1), kind="quiet", glyph="prev", small=True, hint="Previous page")
        after = button("", lambda: view.change(page=shown().page + 1), kind="quiet", glyph="next", small=True, hint="Next page")

    def shown() -> Any:  # noqa: ANN401 - a page of either kind
        return view.stored if view.query.is_stored else view.found

    def update() -> None:
        found, first = shown(), (shown().page - 1) * view.query.size
        say(span, f"{first + 1:,}–{first + len(found.rows):,} of {found.found:,}" if found.rows else "0 of 0")
        say(total, f"of {len(view.shelf.rows):,} registered")
        total.set_visibility(not view.query.is_stored)
        say(page, f"Page {found.page:,} of {found.pages:,}")
        enable(before, found.page > 1)
        enable(after, found.page < found.pages)
        for size, element in sizes.items():
            element.classes(add="on" if size == view.query.size else "", remove="" if size == view.query.size else "on")

    view.on_change(update)


def _size_button(view: AdapterView, size: int) -> Any:  # noqa: ANN401 - an element
    element = button(str(size), lambda: view.change(size=size), kind="quiet", small=True, hint=f"{size} rows a page")
    return element.classes("size")
