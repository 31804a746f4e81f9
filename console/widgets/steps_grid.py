"""Which lanes shared which forward passes: one column a step, drawn from numbers only."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.batch import LaneRun
    from engine import StepRecord

COLUMNS: Final = 125
COLUMN_PX: Final = 6
ROW_PX: Final = 15
BAR_PX: Final = 13
ADAPTERS_PX: Final = 16
TIMES_PX: Final = 28
TICK_EVERY: Final = 20
LABEL_PX: Final = 14
"""Least width of a run that carries its number."""

CellKind = Literal["prefill", "decode", "load", "done", "out"]
PATTERNS: Final = (
    '<defs><pattern id="hatch-load" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="lo" width="8" height="8"/><rect class="hi" width="3" height="8"/></pattern>'
    f'<pattern id="gap" width="{COLUMN_PX}" height="{ROW_PX}" patternUnits="userSpaceOnUse">'
    f'<rect class="gap-line" x="{COLUMN_PX - 1}" width="1" height="{ROW_PX}"/></pattern></defs>'
)


def steps_svg(lanes: Sequence[LaneRun], steps: Sequence[StepRecord]) -> str:
    """The whole drawing: lanes, adapters in the step, step times, step numbers. Fixed width, 6 px a step."""
    shown = steps[-COLUMNS:]
    first = len(steps) - len(shown)
    rows = "".join(_row(lane_cells(lane, steps)[first:], place * ROW_PX) for place, lane in enumerate(lanes))
    height = len(lanes) * ROW_PX
    gaps = f'<rect width="{len(shown) * COLUMN_PX}" height="{height}" fill="url(#gap)"/>'
    lower = _adapters(shown, height + 8) + _times(shown, height + ADAPTERS_PX + 14) + _ticks(shown, height + ADAPTERS_PX + TIMES_PX + 28)
    total = height + ADAPTERS_PX + TIMES_PX + 32
    return f'<svg width="{COLUMNS * COLUMN_PX}" height="{total}" aria-hidden="true">{PATTERNS}{rows}{gaps}{lower}</svg>'


def lane_cells(lane: LaneRun, steps: Sequence[StepRecord]) -> list[CellKind]:
    """What a lane did in each step; before its first one it loads when its adapter was not on the device."""
    phases = [next((row.phase for row in record.rows if row.request == lane.request), None) for record in steps]
    seen = [place for place, phase in enumerate(phases) if phase]
    first, last = (seen[0], seen[-1]) if seen else (len(steps), len(steps))
    before: CellKind = "load" if lane.tier_at_arrival not in {None, "device"} and lane.state != "failed" else "out"
    after: CellKind = "done" if lane.state == "finished" else "out"
    return [phase or (before if place < first else after if place > last else "out") for place, phase in enumerate(phases)]


def _row(cells: Sequence[CellKind], top: int) -> str:
    shapes, at = [], 0
    for kind, run in groupby(cells):
        width = len(list(run)) * COLUMN_PX
        if kind == "done":
            shapes.append(f'<path class="done" d="M{at + 3} {top + ROW_PX / 2}h{max(0, width - 4)}"/>')
        elif kind != "out":
            shapes.append(f'<rect class="c-{kind}" x="{at}" y="{top}" width="{width}" height="{BAR_PX}"/>')
        at += width
    return "".join(shapes)


def _adapters(steps: Sequence[StepRecord], top: int) -> str:
    shapes, at = [], 0
    for number, run in groupby(record.num_adapters for record in steps):
        width = len(list(run)) * COLUMN_PX
        shapes.append(f'<rect class="run" x="{at}" y="{top}" width="{max(1, width - 1)}" height="{ADAPTERS_PX}" rx="2"/>')
        if width >= LABEL_PX:
            shapes.append(f'<text class="run-text" x="{at + width / 2}" y="{top + 12}" text-anchor="middle">{number}</text>')
        at += width
    return "".join(shapes)


def _times(steps: Sequence[StepRecord], top: int) -> str:
    longest = max((record.duration_s for record in steps), default=0.0) or 1.0
    bars = "".join(
        f"M{place * COLUMN_PX + 2.5} {top + TIMES_PX}v-{max(1.0, record.duration_s / longest * TIMES_PX):.1f}"
        for place, record in enumerate(steps)
    )
    return f'<path class="gridline" d="M0 {top + 0.5}H{COLUMNS * COLUMN_PX}"/><path class="times-bars" d="{bars}"/>'


def _ticks(steps: Sequence[StepRecord], baseline: int) -> str:
    return "".join(
        f'<text class="tick-text" x="{place * COLUMN_PX}" y="{baseline}">{record.step:,}</text>'
        for place, record in enumerate(steps)
        if place % TICK_EVERY == 0 and place + 8 < COLUMNS
    )


def longest_ms(steps: Sequence[StepRecord]) -> float | None:
    """The longest of the steps that are drawn, in ms: the top of their axis."""
    return max((record.duration_s * 1000 for record in steps[-COLUMNS:]), default=None)
