"""What an import would do, a page of rows at a time: new, updated, unchanged, or rejected with the reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks

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
PROOFS: Final = {"proven": ("check", "ok"), "declared": ("arrow", "muted")}
"""By what a name would serve on another base: its training record, or what somebody says."""
ORDER: Final = ("new", "updated", "proven", "declared", "unchanged", "rejected")
WORDS: Final = {word: (OUTCOMES | PROOFS)[word] for word in ORDER}


class DryRunTable:
    """Belongs to an open form; each page is looked at when it is shown. The sums are of all rows, of many once they are asked for."""

    ROWS: Final = 20
    AT_ONCE: Final = 50
    COUNTED_AT_ONCE: Final = 200
    """More may take long, or much to fetch."""

    def __init__(self, request: Import, first: DryRun, actions: ImportActions) -> None:
        self._request, self._actions = request, actions
        self._counts: Counter[str] = Counter()
        self._looked = 0
        self._is_counting = False
        with box("dry-run"):
            with box("dry-head"):
                self._sums = box("dry-sums")
                box("gap")
                self._span = text("", "muted")
                self._before = button("", lambda: self._turn(-1), kind="quiet", glyph="prev", small=True, hint="Previous rows")
                self._after = button("", lambda: self._turn(1), kind="quiet", glyph="next", small=True, hint="Next rows")
            self._grid = Grid(COLUMNS, label="Dry run")
        self._show(first)
        self._add(first)
        if first.total <= self.COUNTED_AT_ONCE:
            background_tasks.create(self._count(), context=self._grid)

    def _show(self, page: DryRun) -> None:
        self._page = page
        self._grid.show([_row(judged, _word(judged, self._request.kind)) for judged in page.rows])
        say(self._span, f"rows {page.offset + 1:,}–{page.offset + len(page.rows):,} of {page.total:,}")
        enable(self._before, page.offset > 0)
        enable(self._after, page.offset + len(page.rows) < page.total)

    def _add(self, page: DryRun) -> None:
        """These rows count too; while some do not, it is said how many do."""
        self._counts.update(_word(judged, self._request.kind) for judged in page.rows)
        self._looked += len(page.rows)
        self._sums.clear()
        with self._sums:
            for word in WORDS:
                if self._counts[word]:
                    with box("status"):
                        icon(*WORDS[word])
                        text(f"{self._counts[word]:,} {word}")
            if self._looked < page.total:
                text(f"of the first {self._looked:,}", "muted")
                if not self._is_counting and page.total > self.COUNTED_AT_ONCE:
                    button("Count all", self._count, kind="quiet", small=True, hint="Reads the file of every row")

    async def _count(self) -> None:
        """Look at the rest too, as long as the table is there."""
        if self._is_counting:
            return
        self._is_counting = True
        while self._looked < self._page.total and not self._sums.is_deleted:
            try:
                page = await self._actions.dry_run(self._request, offset=self._looked, limit=self.AT_ONCE)
            except LoradeckError as error:
                say(self._span, error.message)
                break
            if not self._sums.is_deleted:
                self._add(page)
        self._is_counting = False

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


def _word(judged: Judged, kind: str) -> str:
    """What would become of a row; of a name under another base, by what it would serve."""
    if kind != "base" or judged.outcome != "updated":
        return judged.outcome
    return "proven" if judged.facts.get("base_proof") == "recorded" else "declared"


def _row(judged: Judged, word: str) -> dict[str, Any]:
    row, fault = judged.row, judged.fault
    why = [words(row.source, "code why-text")] if fault is None else [words(fault.message, "why-text"), words(fault.code, "code")]
    if word in PROOFS:
        why += [words(warning, "why-text faint") for warning in judged.facts.get("warnings", ())]
        if judged.pin is not None:
            why.append(words(f"Takes its pin on {judged.pin.tier} along.", "why-text faint"))
    cells = [
        [words(str(row.line), "faint")],
        [glyph(*WORDS[word]), words(word)],
        [words(row.alias, "name") if row.alias else words("no alias", "faint")],
        why,
    ]
    return {"id": str(row.line), "cells": cells, "still": True}
