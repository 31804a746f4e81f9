"""Many adapters, one batch: rows of adapter and prompt, sent together, streamed side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import theme
from console.actions import Actions
from console.batch import Batch
from console.visitor import Visitor
from console.widgets.batch_result import BatchResult
from console.widgets.elements import box, button, enable, text
from console.widgets.lanes import Lane
from engine import SamplingParams, demo_voices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicegui.element import Element

    from console.feed import Feed
    from engine import AdapterRow, Engine

DRAW_S: Final = 0.2
MAX_LANES: Final = 16
FIRST_LANES: Final = 8
PROMPTS: Final = (
    "Explain in two sentences why the sky is blue.",
    "Write a product line for a 1.7 L enamel kettle, sage green.",
    "Summarise: the parcel left on Monday and is two days late.",
    "Rewrite politely: send me the invoice again, I cannot find it.",
    "List three things to check before a long bicycle trip.",
    "Turn into a note: patient slept well, no fever, walks unaided.",
    "Quote for 140 m² of oiled oak parquet, laid. One sentence.",
    "What is the capital of Norway, and on which fjord does it lie?",
)


def playground_page(feed: Feed, engine: Engine) -> None:
    """Toolbar, lanes, shared steps."""
    with theme.frame("Playground", feed, Visitor(engine).caller) as shell:
        bench = Bench(feed, Actions(engine, shell.toasts, feed))
        bench.build()
        shell.live.every(bench.settle)


class Bench:
    """The state of one open playground."""

    def __init__(self, feed: Feed, actions: Actions) -> None:
        self._feed, self._actions = feed, actions
        self._why_not = actions.why_not("operator")
        self._lanes: list[Lane] = []
        self._together: Batch | None = None
        self._alone: Batch | None = None

    def build(self) -> None:
        """Create the toolbar, the lanes and the result."""
        self._toolbar()
        with box("card lanes-card", "section").props('aria-label="Lanes"'):
            with box("lane lane-head"):
                for cls, word in (
                    ("number", ""),
                    ("model", "Adapter, tier at arrival"),
                    ("prompt", "Prompt"),
                    ("output", "Output"),
                    ("ttft", "TTFT"),
                    ("tokens", "Tokens"),
                    ("speed", "Tok/s"),
                ):
                    text(word, f"lane-{cls}")
            self._list: Element = box("lane-list").props("role=list")
        self._result = BatchResult(self._measure_alone)
        self._timer = ui.timer(DRAW_S, self._draw, active=False)
        for model, prompt in first_lanes(self._feed.snapshot.adapters, self._actions.base_name):
            self._add(model, prompt)
        self._show_buttons()

    def settle(self) -> None:
        """Keep tiers and pins of idle lanes true."""
        if self._together is None:
            for lane in self._lanes:
                lane.place(None)

    def _toolbar(self) -> None:
        with box("toolbar"):
            text("Batch", "card-title")
            self._temperature = _number("temperature", 0.0, 0.0, 2.0, 0.1)
            self._max_tokens = _number("max tokens", 64, 1, 4096, 1)
            self._seed = _number("seed", 7, 0, 2**31 - 1, 1)
            box("gap")
            text("Real capacity, tenant default", "faint desk-only")
            self._more = button("Lane", lambda: self._add(self._actions.base_name, ""), glyph="plus")
            self._stop = button("Stop", self._halt, kind="primary", glyph="stop").props("data-esc")
            self._go = button("Run", self._run, kind="primary", glyph="play").props("data-run title='Ctrl Enter'")
            with self._stop:
                text("Esc", "key-hint")
            with self._go:
                text("Ctrl ⏎", "key-hint desk-only")

    def _add(self, model: str, prompt: str) -> None:
        with self._list:
            self._lanes.append(Lane(self._feed, self._actions.base_name, model=model, prompt=prompt, on_remove=self._remove))
        self._renumber()

    def _remove(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        lane.element.delete()
        self._renumber()

    def _renumber(self) -> None:
        for place, lane in enumerate(self._lanes, 1):
            lane.number(place)
        self._forget()
        enable(self._more, len(self._lanes) < MAX_LANES, f"At most {MAX_LANES} lanes")
        enable(self._go, bool(self._lanes) and not self._why_not, self._why_not or "Add a lane first")

    def _forget(self) -> None:
        """Lanes changed: numbers of an earlier run no longer belong to them."""
        if self._together is not None:
            self._together = self._alone = None
            for lane in self._lanes:
                lane.show(None)
            self._result.show(None, None)

    def _sampling(self) -> SamplingParams:
        return SamplingParams(
            max_tokens=int(self._max_tokens.value or 1),
            temperature=float(self._temperature.value or 0.0),
            seed=int(self._seed.value) if self._seed.value is not None else None,
        )

    async def _run(self) -> None:
        if self._busy is not None or not self._lanes:
            return
        self._together, self._alone = Batch(self._actions, self._feed, self._sampling()), None
        await self._follow(self._together, self._together.together([(lane.model, lane.prompt) for lane in self._lanes]))

    async def _measure_alone(self) -> None:
        if self._busy is not None or self._together is None:
            return
        self._alone = Batch(self._actions, self._feed, self._together.sampling)
        await self._follow(self._alone, self._alone.one_at_a_time([(run.adapter or run.model, run.prompt) for run in self._together.lanes]))

    async def _follow(self, batch: Batch, work: object) -> None:
        self._show_buttons()
        self._timer.activate()
        client = self._list.client
        client.on_delete(batch.stop)
        try:
            await work  # type: ignore[misc]
        finally:
            self._timer.deactivate()
        if not self._list.is_deleted:
            self._draw()
            self._show_buttons()

    def _halt(self) -> None:
        if self._busy is not None:
            self._busy.stop()

    @property
    def _busy(self) -> Batch | None:
        return next((batch for batch in (self._together, self._alone) if batch is not None and batch.is_running), None)

    def _show_buttons(self) -> None:
        running = self._busy is not None
        self._stop.set_visibility(running)
        self._go.set_visibility(not running)
        self._more.set_visibility(not running)
        for lane in self._lanes:
            lane.lock(running)

    def _draw(self) -> None:
        if self._together is not None:
            for lane, run in zip(self._lanes, self._together.lanes, strict=False):
                lane.show(run)
        self._result.show(self._together, self._alone)


def first_lanes(adapters: Sequence[AdapterRow], base_name: str) -> list[tuple[str, str]]:
    """(adapter, prompt) of the lanes that a visitor finds: demo adapters with prompts that show them, or else a few and the base."""
    ready = [row.alias for row in adapters if row.lifecycle == "ready"]
    lanes = [(voice.alias, voice.prompts[0]) for voice in demo_voices() if voice.alias in ready]
    if not lanes:
        lanes = list(zip([*ready[: FIRST_LANES - 1], base_name], PROMPTS, strict=False))
    return lanes[:FIRST_LANES]


def _number(label: str, value: float, least: float, most: float, step: float) -> ui.number:
    with box("param"):
        text(label, "muted")
        element = ui.number(value=value, min=least, max=most, step=step).classes("field").props("borderless dense")
        element.props["aria-label"] = label
        return element
