"""Choose the base or an adapter by typing part of its name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, field, icon, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.feed import Feed

SHOWN: Final = 10


def pick_model(feed: Feed, base: str, on_choose: Callable[[str], None]) -> None:
    """Open a dialog that ends with a choice, or with none."""
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog picker").props('role=dialog aria-label="Choose a model"'):
        with box("dialog-head"):
            text("Choose a model", "dialog-title", "h2")
            button("", dialog.close, kind="quiet", glyph="close", small=True, hint="Close")
        find = field("Filter", placeholder="Part of a name", on_change=lambda e: show(e.value or ""))
        find.props("autofocus debounce=150")
        results = box("picks")

    def choose(model: str) -> None:
        dialog.close()
        on_choose(model)

    def show(words: str) -> None:
        results.clear()
        rows = [row for row in feed.snapshot.adapters if words.lower() in row.alias.lower() and row.lifecycle == "ready"]
        with results:
            if words.lower() in base.lower():
                _pick(base, "base", "base", lambda: choose(base))
            for row in rows[:SHOWN]:
                _pick(row.alias, row.tier, row.tier, partial(choose, row.alias))
            if len(rows) > SHOWN:
                text(f"{len(rows) - SHOWN:,} more; type to narrow", "faint")

    show("")
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


def _pick(name: str, glyph: str, word: str, on_click: Callable[[], None]) -> None:
    with box("pick", "button").props("type=button").on("click", on_click, args=[]):
        text(name, "name ellipsis")
        with box("tier"):
            if glyph != "base":
                icon(glyph)
            text(word, "faint")
