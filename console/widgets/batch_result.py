"""Under the lanes: the steps they shared, and what sharing was worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.batch import agreement
from console.widgets.elements import box, button, drawing, enable, icon_svg, say, text
from console.widgets.steps_grid import longest_ms, steps_svg

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.batch import Batch
    from console.widgets.elements import Text

LEGEND = (("prefill", "prefill"), ("decode", "decode"), ("hatch", "adapter load"), ("line", "finished"))


class BatchResult:
    """The lower card. Belongs to one client."""

    def __init__(self, on_alone: Callable[[], Awaitable[None]]) -> None:
        with box("card result", "section").props('aria-label="Shared steps"'):
            with box("steps"):
                with box("steps-head"):
                    text("Shared steps", "card-title", "h2")
                    self._count = text("", "sub")
                    box("gap")
                    for cls, word in LEGEND:
                        with box("legend-line"):
                            box({"hatch": "swatch hatch-adapter", "line": "swatch dash"}.get(cls, f"swatch s-{cls}"), "span")
                            text(word)
                with box("steps-body"):
                    with box("steps-labels"):
                        self._names = text("", "names", "div")
                        self._lower = [text("", f"lower-{place}", "div") for place in range(3)]
                    with box("steps-scroll"):
                        self._grid = drawing("")
            with box("sums"):
                self._together = _sum("Together")
                self._alone = _sum("One at a time")
                self._ratio = _sum("Ratio")
                with box("equal"):
                    self._mark = drawing("", "ico", "span")
                    self._equal = text("")
                self._measure = button("Measure one at a time", on_alone, small=True, hint="Sends the same lanes again, each alone")
        self.show(None, None)

    def show(self, together: Batch | None, alone: Batch | None) -> None:
        """Redraw from what is known."""
        self._show_steps(together)
        label, value, unit = self._together
        say(value, fmt.rate(together.tokens_per_s if together else None))
        say(unit, "tok/s")
        label, value, unit = self._alone
        say(label, f"One at a time, {fmt.hour_minute(alone.began_unix)}" if alone else "One at a time")
        say(value, fmt.rate(alone.tokens_per_s if alone else None))
        say(unit, "tok/s")
        _, value, unit = self._ratio
        say(value, _ratio(together, alone))
        self._show_equality(together, alone)
        busy = any(batch is not None and batch.is_running for batch in (together, alone))
        enable(self._measure, together is not None and not busy, "Run the batch first" if together is None else "Wait for the run to end")

    def _show_steps(self, together: Batch | None) -> None:
        if together is None:
            say(self._count, "one column is one forward pass; run the batch to see who shares which")
            for label in (self._names, *self._lower):
                say(label, "")
            self._grid.content = ""
            return
        together.collect_steps()
        say(self._count, f"one column is one forward pass, {len(together.steps):,} so far")
        names = [f"{place} {lane.model.rpartition('/')[2]}" for place, lane in enumerate(together.lanes, 1)]
        longest = longest_ms(together.steps)
        axis = fmt.DASH if longest is None else f"{longest:,.0f}"
        say(self._names, "\n".join(names))
        for label, words in zip(self._lower, ("adapters in the step", f"step time, ms (to {axis})", "step"), strict=True):
            say(label, words)
        svg = steps_svg(together.lanes, together.steps)
        if self._grid.content != svg:
            self._grid.content = svg

    def _show_equality(self, together: Batch | None, alone: Batch | None) -> None:
        level, words = equality_words(together, alone)
        self._mark.content = icon_svg({"ok": "check", "warn": "warn"}[level], level) if level else ""
        say(self._equal, words)


def equality_words(together: Batch | None, alone: Batch | None) -> tuple[str, str]:
    """(level, sentence): whether lanes say the same alone; only greedy lanes can be compared."""
    if together is None or alone is None or alone.is_running:
        return "", "Not measured yet" if alone is None else "Measuring…"
    if together.sampling.temperature > 0:
        return "", "Sampled: compare greedy runs"
    same, compared, differ = agreement(together, alone)
    if not compared:
        return "", "No finished lane to compare"
    if differ:
        return "warn", f"Lane {', '.join(map(str, differ))} differs from running alone"
    return "ok", f"{same} of {compared} finished lanes equal to running alone"


def _ratio(together: Batch | None, alone: Batch | None) -> str:
    if together is None or alone is None or alone.is_running or not together.tokens_per_s or not alone.tokens_per_s:
        return fmt.DASH
    return f"{together.tokens_per_s / alone.tokens_per_s:.1f}×"


def _sum(label: str) -> tuple[Text, Text, Text]:
    with box("sum-entry"):
        word = text(label, "label")
        with box("amount"):
            return word, text("", "big"), text("", "unit")
