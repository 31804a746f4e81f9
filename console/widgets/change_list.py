"""Recent changes, with a way back where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.changes import Change, changes
from console.widgets.elements import box, text
from console.widgets.grid import Column, Grid, act, glyph, words

if TYPE_CHECKING:
    from console.actions import Actions
    from console.live import Live

SHOWN: Final = 7
COLUMNS: Final = (
    Column(key="time", label="Time", width="42px"),
    Column(key="what", label="What", width="minmax(0,1fr)"),
    Column(key="undo", label="", width="max-content", cls="num"),
)
UNDO_WORDS: Final = {"unpin": "Unpin", "warm": "Warm"}


def change_card(live: Live, actions: Actions) -> None:
    """The newest changes first; what can be taken back says how."""
    with box("card changes", "section").props('aria-label="Recent changes"'):
        with box("card-head"):
            text("Recent changes", "card-title", "h2")
        grid = Grid(COLUMNS, label="Recent changes", head=False, empty="Nothing has changed since the start.")

    async def take_back(payload: str) -> None:
        verb, _, ref = payload.partition(" ")
        if verb in {"unpin", "warm"}:
            await actions.at_once("unpin" if verb == "unpin" else "warm", [ref])

    grid.when("act", take_back)
    shown_event = -1

    def update() -> None:
        nonlocal shown_event
        newest = live.feed.events[-1][0] if live.feed.events else 0
        if newest != shown_event:
            shown_event = newest
            grid.show([_row(change, live) for change in changes(live.feed.events)[:SHOWN]])

    live.every(update)


def _row(change: Change, live: Live) -> dict[str, Any]:
    row = live.feed.adapter(change.ref) if change.undo else None
    possible = row is not None and (row.pinned if change.undo == "unpin" else row.tier != "device")
    undo = [act(UNDO_WORDS[change.undo], f"{change.undo} {change.ref}")] if possible else []
    cells = [
        [words(fmt.hour_minute(change.at_unix), "faint")],
        [glyph(change.glyph, change.level or "muted"), words(change.what, "what"), words(change.who, "who")],
        undo,
    ]
    return {"id": str(change.number), "cells": cells, "still": True}
