"""The adapters, a page at a time, with saved views, facets, a filter and a bar for what is ticked."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.query import FACETS, SIZES, VIEWS, cold_share, is_drifting
from console.widgets.command_dialog import command_dialog
from console.widgets.elements import box, button, enable, field, icon, say, text
from console.widgets.grid import Cell, Column, Grid, glyph, number, words
from console.widgets.register_dialog import register_dialog

if TYPE_CHECKING:
    from console.actions import Actions
    from console.adapter_view import AdapterView
    from console.import_actions import ImportActions
    from engine import AdapterRow, Verb

COLUMNS: Final = (
    Column(key="alias", label="Alias", width="minmax(120px,1fr)", sort=True),
    Column(key="version", label="Version", width="70px"),
    Column(key="rank", label="Rank", width="38px", cls="num", sort=True),
    Column(key="bytes", label="MiB", width="46px", cls="num", sort=True),
    Column(key="tier", label="Tier", width="108px", sort=True),
    Column(key="pin", label="Pin until", width="98px"),
    Column(key="leases", label="Leases", width="50px", cls="num", sort=True, title="Running requests that hold it"),
    Column(key="rpm", label="Req/min", width="66px", cls="num", sort=True),
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
FILTER_HINT: Final = "Part of a name or version, or: tenant:acme tier:host pinned:true leased:true rank:>16 idle:>7d"
FACET_GLYPHS: Final = {
    "device": "device",
    "host": "host",
    "disk": "disk",
    "remote": "remote",
    "loading": "loading",
    "pinned": "pinned",
    "drift": "warn",
}


def view_bar(view: AdapterView, actions: Actions, imports: ImportActions) -> None:
    """Saved views with their counts, and the way to add one more adapter."""
    with box("view-bar"):
        with box("views").props('role=group aria-label="Saved views"'):
            counts = {name: _view_button(view, name) for name in VIEWS}
        button("Register…", lambda: register_dialog(actions, imports), glyph="plus").classes("register")

    def update() -> None:
        for name, (element, count) in counts.items():
            say(count, f"{view.found.view_counts[name]:,}")
            chosen = name == view.query.view
            element.classes(add="on" if chosen else "", remove="" if chosen else "on")
            element.props["aria-pressed"] = "true" if chosen else "false"

    view.on_change(update)


def _view_button(view: AdapterView, name: str) -> tuple[Any, Any]:
    with box("view", "button").props("type=button").on("click", lambda: view.change(view=name), args=[]) as element:
        text(VIEWS[name][0])
        return element, text("", "count")


def filter_bar(view: AdapterView) -> None:
    """A filter that waits for the typing to pause, and chips counted within the view."""
    with box("filter-bar"):
        with box("find"):
            icon("search")
            find = field("Filter adapters", value=view.query.q, placeholder="Filter", on_change=lambda e: view.change(q=e.value or ""))
            find.props("debounce=250 clearable").props["title"] = FILTER_HINT
            text("/", "slash", "kbd")
        with box("chips").props('role=group aria-label="Facets"'):
            chips = {name: _chip(view, name) for name in FACETS}

    def update() -> None:
        for name, (element, count) in chips.items():
            number_found = view.found.facet_counts[name]
            chosen = name in view.query.facets
            say(count, f"{number_found:,}")
            element.set_visibility(bool(number_found) or chosen)
            element.classes(add="on" if chosen else "", remove="" if chosen else "on")
            element.props["aria-pressed"] = "true" if chosen else "false"

    view.on_change(update)


def _chip(view: AdapterView, name: str) -> tuple[Any, Any]:
    with box("chip", "button").props("type=button").on("click", lambda: view.ask(view.query.with_facet(name)), args=[]) as element:
        icon(FACET_GLYPHS[name], {"pinned": "violet", "drift": "warn"}.get(name, ""))
        text(FACETS[name][0])
        return element, text("", "count")


def adapter_table(view: AdapterView, actions: Actions) -> None:
    """Head, rows, bulk bar, pager."""
    with box("card adapter-card", "section").props('aria-label="Adapters"'):
        with box("scroll"):
            grid = Grid(COLUMNS, label="Adapters", selectable=True, keys=True)
        _bulk_bar(view, actions)
        _pager(view)
    grid.when("sort", lambda key: view.ask(view.query.sorted_by(key)))
    grid.when("open", lambda key: view.change(open="" if view.query.open == key else key))
    grid.when("select", lambda what: _tick(view, what))

    def update() -> None:
        now = time.time()
        grid.show([_row(row, now) for row in view.found.rows])
        opened = view.opened
        empty = (
            "No adapter fits this view and filter."
            if view.found.registered
            else "No adapters yet. Register a PEFT folder, and it is served from the next request on."
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
        [words(tenant + slash, "muted tenant"), words(name, "name")] if tenant else [words(name, "name")],
        [words(fmt.digest(row.id), "code")],
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


def tier_cell(row: AdapterRow) -> list[Cell]:
    """Bars, the word, and where it should be when that differs."""
    cell = [glyph(row.tier), words(row.tier)]
    if row.probe == "mismatch":
        cell = [glyph("crit", "crit"), words("quarantined")]
    elif row.lifecycle != "ready":
        cell = [glyph("unknown" if row.lifecycle == "validating" else "paused", "muted"), words(row.lifecycle)]
    elif is_drifting(row):
        cell.append(words(f"→ {row.pin_tier}", "faint"))
    return cell


def _bulk_bar(view: AdapterView, actions: Actions) -> None:
    with box("bulk") as bar:
        count = text("", "name")
        amount = text("", "muted")
        box("gap")
        for verb, label in BULK:
            button(label, partial(_command, view, actions, verb), glyph=verb, small=True)
        button("", lambda: view.tick(list(view.ticked), on=False), kind="quiet", glyph="close", small=True, hint="Untick all")

    def update() -> None:
        rows = view.ticked_rows
        bar.set_visibility(bool(rows))
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
        before = button("", lambda: view.change(page=view.found.page - 1), kind="quiet", glyph="prev", small=True, hint="Previous page")
        after = button("", lambda: view.change(page=view.found.page + 1), kind="quiet", glyph="next", small=True, hint="Next page")

    def update() -> None:
        found, first = view.found, (view.found.page - 1) * view.query.size
        say(span, f"{first + 1:,}–{first + len(found.rows):,} of {found.found:,}" if found.rows else "0 of 0")
        say(total, f"of {found.registered:,} registered")
        say(page, f"Page {found.page:,} of {found.pages:,}")
        enable(before, found.page > 1)
        enable(after, found.page < found.pages)
        for size, element in sizes.items():
            element.classes(add="on" if size == view.query.size else "", remove="" if size == view.query.size else "on")

    view.on_change(update)


def _size_button(view: AdapterView, size: int) -> Any:  # noqa: ANN401 - an element
    element = button(str(size), lambda: view.change(size=size), kind="quiet", small=True, hint=f"{size} rows a page")
    return element.classes("size")
