"""Six lanes on one scale: a timeline of measured phases, the median, its range, and the ratio to the pinned one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console import cold_warm as view
from console import format as fmt
from console.widgets.elements import box, icon, text
from engine import LANES

if TYPE_CHECKING:
    from nicegui.element import Element

    from console.cold_warm import Scale
    from console.feed import Feed
    from engine import ColdWarmState, LaneName, LanePhase, LaneResult, LaneRun

LABEL_SHARE: Final = 0.085
"""A phase that is at least this wide carries its name."""


class ColdLanes:
    """The card. Belongs to one client; redrawn by lane, where something changed."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._drawn: dict[LaneName, object] = {}
        self._axis_drawn: object = self
        with box("card cold-lanes", "section").props('aria-label="Time to the first token by lane"'):
            with box("cold-lane cold-head"):
                text("")
                self._axis = box("cold-track")
                self._count = text("median", "cold-median")
                text("against pinned", "cold-ratio")
            self._lanes: dict[LaneName, Element] = {lane: box("cold-lane").props("role=group") for lane in LANES}

    def show(self, state: ColdWarmState, alias: str, bytes_per_s: int) -> None:
        """Show what is measured so far, or what would be."""
        scale = view.scale_of(state)
        if (scale, state.options) != self._axis_drawn:
            self._axis_drawn = (scale, state.options)
            self._draw_axis(scale)
        self._count.text = view.median_words(state)
        row = self._feed.adapter(alias)
        results = {result.lane: result for result in state.results}
        pinned = results.get("pinned")
        for lane in LANES:
            result = results.get(lane)
            ratio = view.against(result, pinned) if result is not None and pinned is not None else fmt.DASH
            line = view.lane_line(lane, row, bytes_per_s)
            running = state.now is not None and state.now[0] == lane
            key = (result, scale, line, ratio, running)
            if self._drawn.get(lane) != key:
                self._drawn[lane] = key
                self._draw(lane, result, scale, (line, ratio), running=running)

    def _draw_axis(self, scale: Scale | None) -> None:
        self._axis.clear()
        with self._axis:
            for share, label in () if scale is None else scale.ticks:
                text(label, "cold-tick").style(f"left:{share:.2%}")

    def _draw(self, lane: LaneName, result: LaneResult | None, scale: Scale | None, words: tuple[str, str], *, running: bool) -> None:
        element = self._lanes[lane]
        element.clear()
        element.classes(add="is-now" if running else "", remove="" if running else "is-now")
        element.props["aria-label"] = view.NAMES[lane]
        with element:
            with box("cold-name"):
                text(view.NAMES[lane], "cold-title", "h3")
                with box("cold-line"):
                    text(words[0])
                    _notes(result)
            _track(result, scale, running=running)
            with box("cold-median"):
                number, unit = fmt.latency(None if result is None else result.median_s)
                with box("cold-number"):
                    text(number, "n blank" if number == fmt.DASH else "n")
                    text(unit, "u")
                text("" if result is None else view.range_words(result), "cold-range")
            text(words[1], "cold-ratio")


def _notes(result: LaneResult | None) -> None:
    """What a reader must know of a lane's runs."""
    if result is None:
        return
    cache = view.page_cache_words(result)
    if cache:
        text(cache, "tag outlined")
    failed = [run for run in result.runs if not run.counts]
    if failed:
        with box("cold-fault") as note:
            icon("warn", "warn")
            text(f"{len(failed)} of {len(result.runs)} do not count")
        note.props["title"] = failed[-1].fault


def _track(result: LaneResult | None, scale: Scale | None, *, running: bool) -> None:
    run = None if result is None else result.typical
    with box("cold-track") as track:
        for share, _ in () if scale is None else scale.ticks:
            box("cold-grid").style(f"left:{share:.2%}")
        if result is None or run is None or scale is None:
            text(_empty_words(result, running=running), "cold-empty")
            return
        for phase in run.phases:
            _phase(phase, scale)
        if scale.right_s is not None and (run.ttft_s or 0.0) > scale.left_s:
            box("cold-break").style(f"left:{scale.at(scale.left_s):.2%}")
        box("cold-first").style(f"left:{scale.at(run.ttft_s or 0.0):.2%}").props["title"] = "first token"
        _whisker(result, scale)
    track.props["role"] = "img"
    track.props["aria-label"] = phases_words(run)


def _empty_words(result: LaneResult | None, *, running: bool) -> str:
    if result is not None and result.skipped:
        return f"Not measured: {result.skipped}."
    if result is not None and result.runs:
        return f"No run counts: {result.runs[-1].fault or 'it gave no token'}."
    return "first run" if running else ""


def _phase(phase: LanePhase, scale: Scale) -> None:
    words = f"{phase.name} {fmt.latency_text(phase.duration_s)}"
    for index, (left, width) in enumerate(scale.spans(phase.start_s, phase.start_s + phase.duration_s)):
        bar = box(f"cold-bar k-{phase.kind}").style(f"left:{left:.3%};width:{width:.3%}")
        bar.props["title"] = words
        if index == 0 and width >= LABEL_SHARE:
            with bar:
                text(phase.name, "plate")


def _whisker(result: LaneResult, scale: Scale) -> None:
    """From the shortest to the longest run."""
    if result.range_s is None:
        return
    for left, width in scale.spans(*result.range_s):
        box("cold-whisker").style(f"left:{left:.3%};width:{width:.3%}")


def phases_words(run: LaneRun) -> str:
    """The timeline for who does not see it."""
    return ", ".join(f"{phase.name} {fmt.latency_text(phase.duration_s)}" for phase in run.phases)
