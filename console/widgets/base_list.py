"""Bases that served here, how many adapters each has, and what another one would stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks

from console import format as fmt
from console.import_actions import ImportActions
from console.widgets.elements import box, button, enable, field, icon, text
from console.widgets.grid import Column, Grid, glyph, words
from console.widgets.refusal import refusal
from console.widgets.upgrade_dialog import upgrade_dialog
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.desk import Desk
    from engine import BaseRow, Fate

SHOWN: Final = 12
COLUMNS: Final = (
    Column(key="name", label="Base", width="minmax(140px,1fr)"),
    Column(key="digest", label="Digest", width="140px"),
    Column(key="state", label="State", width="110px"),
    Column(key="adapters", label="Ready versions", width="104px", cls="num"),
    Column(key="first", label="First served", width="116px"),
)


class BaseList:
    """What served, what is stranded, and a preview of another base."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._imports = ImportActions(desk.engine, desk.toasts)
        why_not = desk.why_not("operator")
        with box("card table-card base-list", "section").props('aria-label="Bases"'):
            with box("card-head"):
                text("Bases", "card-title", "h2")
                text("an adapter serves on the base whose digest it was registered for, and on no other", "sub")
            self._grid = Grid(COLUMNS, label="Bases", empty="No base has served yet.")
            self._stranded = box("stranded")
        with box("card padded", "section").props('aria-label="Another base"'):
            text("Before another base", "card-title", "h2")
            text("A folder on the server; nothing is changed. What would stop serving is listed, with why.", "muted", "p")
            with box("inline-form"):
                self._folder = field("Folder of a base", placeholder="/models/my-base")
                look = button("Preview", self._preview, kind="primary")
                enable(look, not why_not, why_not)
            self._found = box("preview")
        self.refresh()

    def refresh(self) -> None:
        """Ask again."""
        background_tasks.create(self._show(), context=self._grid)

    async def _show(self) -> None:
        bases = self.desk.engine.versions.bases
        rows = await self.desk.ask(bases.every)
        self._grid.show([_row(row, served=row.digest == bases.served) for row in rows])
        stranded = await self.desk.ask(bases.stranded)
        self._stranded.clear()
        if stranded:
            with self._stranded:
                _fates(stranded, f"{fmt.plural(len(stranded), 'alias').replace('aliass', 'aliases')} of another base cannot serve")
                self._dry_run("Register again…")

    async def _preview(self) -> None:
        self._found.clear()
        folder = str(self._folder.value or "").strip()
        try:
            found = await self.desk.ask(self.desk.engine.versions.bases.preview, folder)
        except LoradeckError as error:
            with self._found:
                refusal("Not a base that can serve", error)
            return
        with self._found:
            if found.is_served:
                _line("check", "ok", f"{found.name} serves now; nothing would stop.")
            elif not found.stops:
                _line("check", "ok", f"{found.name}, {fmt.digest(found.digest)}: no alias would stop.")
            else:
                _fates(found.stops, f"With {found.name}, {fmt.digest(found.digest)}, {len(found.stops):,} of the names would stop")
                self._dry_run("What would register again…", folder=folder, name=found.name)

    def _dry_run(self, label: str, **base: str) -> None:
        look = button(label, lambda: upgrade_dialog(self._imports, self.refresh, **base), small=True)
        why_not = self.desk.why_not("operator")
        enable(look, not why_not, why_not)


def _fates(fates: Sequence[Fate], title: str) -> None:
    with box("checks"):
        _line("warn", "warn", f"{title}.")
        for fate in fates[:SHOWN]:
            with box("fate"):
                text(fate.tenant, "muted")
                text(fate.alias, "name")
                text(fate.reason, "faint")
        if len(fates) > SHOWN:
            text(f"and {len(fates) - SHOWN:,} more", "faint")


def _line(mark: str, level: str, said: str) -> None:
    with box("check-line"):
        icon(mark, level)
        text(said)


def _row(row: BaseRow, *, served: bool) -> dict[str, Any]:
    cells = [
        [words(row.name, "name")],
        [words(row.digest[:16], "code")],
        [glyph("ok", "ok"), words("serves")] if served else [glyph("paused", "muted"), words("served before", "muted")],
        [words(fmt.count(row.adapters), "" if row.adapters else "zero")],
        [words(fmt.moment(row.added_unix, time.time()), "muted")],
    ]
    return {"id": row.digest, "cells": cells, "still": True}
