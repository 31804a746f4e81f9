"""One operation: how far it is, its rows by state, and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from console import format as fmt
from console.operation_words import OUTCOMES, STATES, UNFINISHED, ended, how_far, share, title, waiting
from console.operations_view import ITEM_STATES, ROWS_SHOWN
from console.widgets.elements import box, button, drawing, enable, icon_svg, say, text
from console.widgets.grid import Column, Grid, glyph, words
from engine import LoradeckError

if TYPE_CHECKING:
    from nicegui.element import Element

    from console.import_actions import OperationVerb
    from console.operations_view import OperationsView
    from engine import ItemRecord, Progress

COLUMNS: Final = (
    Column(key="number", label="Row", width="44px", cls="num"),
    Column(key="outcome", label="Outcome", width="88px"),
    Column(key="alias", label="Alias", width="minmax(110px,1.2fr)"),
    Column(key="why", label="Source, or why not", width="minmax(120px,1.5fr)"),
)
VERBS: Final[dict[OperationVerb, tuple[str, str]]] = {
    "cancel": ("Cancel", "stop"),
    "resume": ("Resume", "play"),
    "retry": ("Retry rejected", "undo"),
}
LABELS: Final = {"all": "All", "waiting": "Waiting", "done": "Done", "rejected": "Rejected"}


class OperationDrawer:
    """Made once; its parts follow the view, so that nothing jumps while it runs."""

    def __init__(self, view: OperationsView) -> None:
        self._view = view
        self._drawer = box("drawer wide", "aside").props('aria-label="Operation"')
        with self._drawer:
            self._head()
            with box("op-track"):
                self._fill = box("op-fill")
            self._sentence = text("", "muted", "p")
            with box("drawer-foot"):
                self._buttons = {verb: self._button(verb) for verb in VERBS}
                self._errors = button(
                    "Errors as CSV", self._download, glyph="download", small=True, hint="Row, source, name and reason of each rejected row"
                )
            with box("views").props('role=group aria-label="Rows by state"'):
                self._states = {name: self._state(name) for name in ITEM_STATES}
            self._grid = Grid(COLUMNS, label="Rows").classes("op-rows")
            self._pager()
        view.on_change(self.update)

    def update(self) -> None:
        """Follow the view."""
        view, one = self._view, self._view.opened
        self._drawer.set_visibility(bool(view.query.open) and (one is not None or view.fault is not None))
        if one is None:
            self._grid.show([])
            say(self._sentence, view.fault.message if view.fault is not None else "")
            return
        record = one.record
        say(self._title, title(record))
        say(self._state_word, record.state)
        self._mark.content = icon_svg(*STATES[record.state])
        say(self._when, f"{fmt.clock_day(record.created_unix)}, {record.created_by}")
        self._fill.style(f"width: {share(record):.1%}")
        say(self._sentence, how_far(one) if record.state in UNFINISHED else ended(record))
        self._arm(one)
        counts = {"all": record.total, "waiting": waiting(record), "done": record.done, "rejected": record.failed}
        for name, (element, count) in self._states.items():
            say(count, f"{counts[name]:,}")
            chosen = name == view.query.rows
            element.classes(add="on" if chosen else "", remove="" if chosen else "on")
            element.props["aria-pressed"] = "true" if chosen else "false"
        self._grid.show([_row(item) for item in view.items])
        self._grid.assume(empty="No row is in this state.")
        first = (view.query.rows_page - 1) * ROWS_SHOWN
        say(self._span, f"{first + 1:,}–{first + len(view.items):,} of {counts[view.query.rows]:,}" if view.items else "0 of 0")
        enable(self._before, view.query.rows_page > 1)
        enable(self._after, first + len(view.items) < counts[view.query.rows])

    def _head(self) -> None:
        with box("drawer-head"):
            with box("drawer-title", "h2"):
                self._title = text("", "name")
            box("gap")
            button("", lambda: self._view.change(open=""), kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
        with box("drawer-sub"):
            with box("status"):
                self._mark = drawing("", "ico", "span")
                self._state_word = text("")
            self._when = text("")

    def _arm(self, one: Progress) -> None:
        record = one.record
        runs = record.state in UNFINISHED
        shown = {"cancel": runs, "resume": not runs and waiting(record) > 0, "retry": not runs and record.failed > 0}
        self._errors.set_visibility(record.failed > 0)
        for verb, element in self._buttons.items():
            why_not = self._view.actions.why_not("operator", VERBS[verb][0])
            element.set_visibility(shown[verb])
            enable(element, not why_not, why_not)

    async def _download(self) -> None:
        try:
            told = await self._view.actions.errors_csv(self._view.query.open)
        except LoradeckError as error:
            self._view.actions.toasts.show(error.message, glyph="crit", level="crit")
        else:
            ui.download.content(told, f"operation-{self._view.query.open[:8]}-errors.csv", "text/csv")

    def _button(self, verb: OperationVerb) -> Element:
        label, mark = VERBS[verb]
        return button(label, lambda: self._act(verb), glyph=mark, small=True)

    async def _act(self, verb: OperationVerb) -> None:
        await self._view.actions.act(verb, self._view.query.open)
        self._view.load()

    def _state(self, name: str) -> tuple[Element, Any]:
        with box("view", "button").props("type=button") as element:
            text(LABELS[name])
            count = text("", "count")
        element.on("click", lambda: self._view.change(rows=name, rows_page=1), args=[])
        return element, count

    def _pager(self) -> None:
        with box("pager"):
            self._span = text("")
            box("gap")
            self._before = button("", lambda: self._turn(-1), kind="quiet", glyph="prev", small=True, hint="Previous rows")
            self._after = button("", lambda: self._turn(1), kind="quiet", glyph="next", small=True, hint="Next rows")

    def _turn(self, by: int) -> None:
        self._view.change(rows_page=self._view.query.rows_page + by)


def operation_drawer(view: OperationsView) -> None:
    """Open while the address names an operation."""
    OperationDrawer(view)


def _row(item: ItemRecord) -> dict[str, Any]:
    alias, source = str(item.data.get("alias") or ""), str(item.data.get("source") or "")
    why = [words(source, "code why-text")]
    if item.state == "rejected":
        why = [words(item.message, "why-text"), words(item.code or "", "code")]
    cells = [
        [words(f"{item.number + 1:,}", "faint")],
        [glyph(*OUTCOMES[item.outcome]), words(item.outcome or item.state)],
        [words(alias, "name") if alias else words("no alias", "faint")],
        why,
    ]
    return {"id": str(item.number), "cells": cells, "still": True}
