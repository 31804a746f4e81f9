"""What an import would do, a page of rows at a time: new, updated, unchanged, or rejected with the reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from console.operation_words import OUTCOMES
from console.widgets.elements import box, button, enable, icon, say, text
from console.widgets.grid import Column, Grid, glyph, words
from engine import LoradeckError

if TYPE_CHECKING:
    from console.import_actions import ImportActions
    from engine import DryRun, Import, Judged

COLUMNS: Final = (
    Column(key="line", label="Line", width="44px", cls="num"),
    Column(key="outcome", label="Would be", width="104px"),
    Column(key="alias", label="Alias", width="minmax(120px,1fr)"),
    Column(key="why", label="Source, or why not", width="minmax(160px,1.6fr)"),
)


class DryRunTable:
    """Belongs to an open form; each page is looked at when it is shown."""

    ROWS: Final = 20

    def __init__(self, request: Import, first: DryRun, actions: ImportActions) -> None:
        self._request, self._actions = request, actions
        with box("dry-run"):
            with box("dry-head"):
                self._sums = box("dry-sums")
                box("gap")
                self._span = text("", "muted")
                self._before = button("", lambda: self._turn(-1), kind="quiet", glyph="prev", small=True, hint="Previous rows")
                self._after = button("", lambda: self._turn(1), kind="quiet", glyph="next", small=True, hint="Next rows")
            self._grid = Grid(COLUMNS, label="Dry run")
        self._show(first)

    def _show(self, page: DryRun) -> None:
        self._page = page
        self._grid.show([_row(judged) for judged in page.rows])
        say(self._span, f"rows {page.offset + 1:,}–{page.offset + len(page.rows):,} of {page.total:,}")
        enable(self._before, page.offset > 0)
        enable(self._after, page.offset + len(page.rows) < page.total)
        counts = Counter(judged.outcome for judged in page.rows)
        self._sums.clear()
        with self._sums:
            for outcome in ("new", "updated", "unchanged", "rejected"):
                if counts[outcome]:
                    with box("status"):
                        icon(*OUTCOMES[outcome])
                        text(f"{counts[outcome]:,} {outcome}")

    async def _turn(self, by: int) -> None:
        enable(self._before, enabled=False)
        enable(self._after, enabled=False)
        say(self._span, "Reading…")
        try:
            page = await self._actions.dry_run(self._request, offset=max(0, self._page.offset + by * self.ROWS), limit=self.ROWS)
        except LoradeckError as error:
            say(self._span, error.message)
            enable(self._before, enabled=True)
        else:
            self._show(page)


def _row(judged: Judged) -> dict[str, Any]:
    row, fault = judged.row, judged.fault
    why = [words(row.source, "code why-text")] if fault is None else [words(fault.message, "why-text"), words(fault.code, "code")]
    cells = [
        [words(str(row.line), "faint")],
        [glyph(*OUTCOMES[judged.outcome]), words(judged.outcome)],
        [words(row.alias, "name") if row.alias else words("no alias", "faint")],
        why,
    ]
    return {"id": str(row.line), "cells": cells, "still": True}
