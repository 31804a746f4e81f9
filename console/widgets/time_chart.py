"""Where the time to the first token goes: stacked areas over fifteen minutes, decode as its own strip."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from console import format as fmt
from console.feed import SPARK_REDRAW_TICKS, stages
from console.history import KEPT_S, NUM_BUCKETS, runs
from console.widgets.elements import box, drawing, say, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.live import Live
    from console.widgets.elements import Text

HEIGHT: Final = 100
STRIP_HEIGHT: Final = 24
STACK: Final = ("prefill", "load", "queue")
"""From the ground up."""
LABELS: Final = {"queue": "queue", "load": "adapter load", "prefill": "prefill"}
TICKS: Final = 4


def time_card(live: Live) -> None:
    """The card: legend with present values, areas, decode strip."""
    with box("card time", "section").props('aria-label="Where the time goes"'):
        with box("card-head"):
            text("Where the time goes", "card-title", "h2")
            text("mean to the first token, 15 min", "sub")
        with box("legend-row"):
            legend = {name: _legend_entry(name, LABELS[name]) for name in ("queue", "load", "prefill")}
        with box("plot"):
            axis = [text("", "tick") for _ in range(TICKS + 1)]
            area = drawing("", "area")
            empty = text("No traffic in the last 15 min", "no-traffic")
        with box("times"):
            times = [text("") for _ in range(4)]
        decode = _legend_entry("decode", "decode")
        strip = drawing("", "strip-plot")
    drawn_at = -1

    def update() -> None:
        nonlocal drawn_at
        for name, value in (*stages(live.feed.snapshot.rates), ("decode", live.feed.snapshot.rates.decode_per_token_s)):
            number, unit = fmt.latency(value)
            entry = decode if name == "decode" else legend[name]
            say(entry[0], number)
            say(entry[1], f"{unit} per token" if name == "decode" and unit else unit)
        if drawn_at == live.feed.ticks // SPARK_REDRAW_TICKS:
            return
        drawn_at = live.feed.ticks // SPARK_REDRAW_TICKS
        series = {name: live.feed.rings[name].buckets() for name in (*STACK, "decode")}
        top = ceiling(max((sum(v or 0.0 for v in column) for column in zip(*(series[n] for n in STACK), strict=True)), default=0.0) * 1000)
        area.content = stacked_svg([series[name] for name in STACK], top / 1000)
        strip.content = line_svg(series["decode"])
        known = any(value is not None for name in STACK for value in series[name])
        empty.set_visibility(not known)
        for step, label in enumerate(axis):
            say(label, f"{top * (TICKS - step) / TICKS:,.0f}" if known else "")
        for step, label in enumerate(times):
            say(label, fmt.hour_minute(time.time() - KEPT_S + step * KEPT_S / 3))

    live.every(update)


def _legend_entry(name: str, label: str) -> tuple[Text, Text]:
    with box("legend-line"):
        box(f"swatch s-{name}", "span")
        text(label)
        return text("", "value"), text("", "unit")


def ceiling(value_ms: float) -> float:
    """The least round number of milliseconds above ``value_ms`` that four ticks divide into whole ones."""
    power = 10.0 ** max(0, math.floor(math.log10(max(value_ms, 1.0))))
    tops = (factor * scale for scale in (power, 10 * power) for factor in (1, 2, 4, 6, 8))
    return next((top for top in tops if top >= value_ms and top % TICKS == 0), 10 * power * TICKS)


def stacked_svg(layers: Sequence[Sequence[float | None]], top: float) -> str:
    """Filled areas, the first at the ground. Where no layer is known there is a gap."""
    known = [any(layer[i] is not None for layer in layers) for i in range(NUM_BUCKETS)]
    ground = [0.0] * NUM_BUCKETS
    shapes = []
    for name, layer in zip(STACK, layers, strict=True):
        roof = [low + (value or 0.0) for low, value in zip(ground, layer, strict=True)]
        shapes += [
            f'<path class="f-{name}" d="{_band([(i, ground[i], roof[i]) for i, _ in run], top)}"/>'
            for run in runs([1.0 if k else None for k in known])
            if len(run) > 1
        ]
        ground = roof
    lines = "".join(f'<path class="gridline" d="M0 {HEIGHT * i / TICKS:.1f}H{NUM_BUCKETS - 1}"/>' for i in range(TICKS + 1))
    return f'<svg viewBox="0 0 {NUM_BUCKETS - 1} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{lines}{"".join(shapes)}</svg>'


def _band(places: list[tuple[int, float, float]], top: float) -> str:
    upper = "L".join(f"{i} {_y(roof, top)}" for i, _, roof in places)
    lower = "L".join(f"{i} {_y(ground, top)}" for i, ground, _ in reversed(places))
    return f"M{upper}L{lower}Z"


def _y(value: float, top: float) -> str:
    return f"{HEIGHT * (1 - value / top):.1f}"


def line_svg(points: Sequence[float | None]) -> str:
    """One line from zero, with gaps."""
    high = max((value for value in points if value is not None), default=0.0) or 1.0
    lines = ["M" + "L".join(f"{i} {STRIP_HEIGHT - 2 - value / high * (STRIP_HEIGHT - 6):.1f}" for i, value in run) for run in runs(points)]
    ground = f'<path class="gridline" d="M0 {STRIP_HEIGHT - 0.5}H{NUM_BUCKETS - 1}"/>'
    line = f'<path class="l-decode" d="{"".join(lines)}"/>'
    return f'<svg viewBox="0 0 {NUM_BUCKETS - 1} {STRIP_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{ground}{line}</svg>'
