"""Versions that do not serve: rejected ones with the reason, retired and archived ones with their end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.views import STATE_GLYPHS
from console.widgets.elements import box, button, icon, say, text
from console.widgets.grid import Column, Grid, glyph, words

if TYPE_CHECKING:
    from console.adapter_view import AdapterView
    from console.stored import StoredVersion

COLUMNS: Final = (
    Column(key="line", label="Adapter", width="minmax(140px,1fr)"),
    Column(key="version", label="Version", width="116px"),
    Column(key="state", label="State", width="100px"),
    Column(key="when", label="Since", width="92px"),
    Column(key="by", label="Registered by", width="104px"),
    Column(key="why", label="Why", width="minmax(160px,2fr)"),
)
EMPTY: Final = {
    "rejected": "Nothing was refused. A version that does not pass the gate is kept here with its report.",
    "retired": "Nothing is retired. A version that leaves service is kept here until it is archived, and can be restored.",
}


def stored_table(view: AdapterView) -> None:
    """Newest first; a row opens its report in the drawer."""
    grid = Grid(COLUMNS, label="Versions that do not serve").classes("stored")
    with box("stored-fault").props("role=alert") as fault:
        icon("crit", "crit")
        why = text("")
        button("Try again", view.load_stored, small=True)
    grid.when("open", lambda key: view.change(open="" if view.query.open == key else key, tab="validation"))

    def update() -> None:
        if not view.query.is_stored:
            grid.show([])
            return
        now = time.time()
        failed = view.stored.fault
        fault.set_visibility(failed is not None)
        say(why, f"The registry did not answer: {failed.message}" if failed is not None else "")
        grid.show([_row(version, now) for version in view.stored.rows])
        opened = view.opened_stored
        empty = "No version fits this filter." if view.query.q or view.query.tenant else EMPTY[view.query.view]
        grid.assume(open=opened.text if opened else "", empty="" if failed is not None else empty)

    view.on_change(update)


def _row(version: StoredVersion, now_unix: float) -> dict[str, Any]:
    own = f"{version.tenant}/"
    before, name = (own, version.line.removeprefix(own)) if version.line.startswith(own) else (f"{version.tenant}, ", version.line)
    digest = words(fmt.digest(version.content), "code") if version.content else words("not read", "faint")
    cells = [
        [words(before, "muted tenant"), words(name, "name")],
        [words(str(version.number), "vnum"), digest],
        [glyph(*STATE_GLYPHS[version.state]), words(version.state)],
        [words(fmt.moment(version.state_unix, now_unix), "muted")],
        [words(version.registered_by, "muted ellipsis")],
        [words(version.reason or fmt.DASH, "why-text" if version.reason else "faint")],
    ]
    return {"id": version.place.text, "name": version.place.ref, "cells": cells}
