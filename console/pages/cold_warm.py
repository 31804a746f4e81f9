"""Cold against warm: one adapter, one prompt, six starting points, for showing to others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nicegui import run, ui

from console import cold_warm as view
from console import format as fmt
from console import theme
from console.actions import Actions
from console.widgets.cold_cards import ColdCards
from console.widgets.cold_lanes import ColdLanes
from console.widgets.elements import box, button, enable, field, icon, say, segments, text
from console.widgets.picker import pick_model
from engine import ColdWarmOptions, LoradeckError, demo_voices

if TYPE_CHECKING:
    from console.feed import Feed
    from engine import Caller, ColdWarm, ColdWarmState, Engine

DRAW_S: Final = 0.25
PROMPT: Final = "Explain in two sentences why the sky is blue."
REPEATS: Final = {"3": "3 runs", "10": "10 runs"}
MIB: Final = 2**20
LIMITS: Final = {"10": "10 MiB/s", "50": "50 MiB/s", "200": "200 MiB/s"}


def cold_warm_page(feed: Feed, engine: Engine, cold_warm: ColdWarm) -> None:
    """Bar, sentence, lanes, cards, foot."""
    with theme.stage("Cold and warm", feed) as shell:
        show = Show(feed, Actions(engine, shell.toasts, feed), cold_warm)
        with shell.bar:
            show.build_bar()
        show.build()
        shell.live.every(show.refresh)
    ui.context.client.on_disconnect(show.leave)


class Show:
    """The state of one open page; the comparison itself is the process's."""

    def __init__(self, feed: Feed, actions: Actions, cold_warm: ColdWarm) -> None:
        self._feed, self._actions, self._cold_warm = feed, actions, cold_warm
        self._alias = cold_warm.state.alias or first_ready(feed)
        self._repeats, self._limit = "10", "50"
        self._why_not = actions.why_not("operator", everywhere=True)
        self._began_by: Caller | None = None
        """Who began here what may still run."""
        self._drawn: ColdWarmState | None = None

    def build_bar(self) -> None:
        """Progress and the three buttons."""
        self._progress = text("", "cold-progress").props("role=status")
        self._reset = button("Reset", self._put_back, hint="stop, put the adapter back, forget the numbers")
        self._stop = button("Stop", self._halt, kind="primary", glyph="stop").props("data-esc")
        self._go = button("Run", self._start, kind="primary", glyph="play").props("data-run")
        enable(self._reset, not self._why_not, self._why_not)

    def build(self) -> None:
        """Sentence, form, lanes, cards, foot."""
        with box("cold-title-row"):
            self._headline = text("", "cold-headline", "h1")
        with box("cold-sub-row"):
            self._sub = text("", "cold-sub")
            box("gap")
            _legend()
        self._form()
        self._fault = text("", "cold-alert").props("role=alert")
        self._lanes = ColdLanes(self._feed)
        self._cards = ColdCards(self._feed)
        with box("cold-foot"):
            self._conditions = text("")
            self._restored = text("")
        ui.timer(DRAW_S, self._draw)
        self._draw()

    def refresh(self) -> None:
        """With each new sample: what the ledger says."""
        self._cards.show_memory()
        if not self._alias:
            self._alias = first_ready(self._feed)
            self._name_adapter()
        self._conditions.text = self._conditions_words(self._cold_warm.state)

    def leave(self) -> None:
        """The browser has gone: what this page started ends, and the adapter goes back."""
        if self._began_by is not None:
            self._cold_warm.stop(caller=self._began_by)  # also where they have been signed out meanwhile

    def _form(self) -> None:
        with box("cold-form"):
            with box("cold-pick btn plain", "button").props('type=button aria-label="Choose an adapter"') as self._pick:
                icon("adapters")
                self._name = text("", "name ellipsis")
            self._pick.on("click", self._choose, args=[])
            self._prompt = field("Prompt", value=PROMPT).classes("cold-prompt")
            segments(REPEATS, self._repeats, self._choose_repeats, "Repeats")
            with box("cold-limit"):
                text("store", "muted")
                segments(LIMITS, self._limit, self._choose_limit, "Bandwidth of the store")
        self._name_adapter()

    def _choose(self) -> None:
        def choose(alias: str) -> None:
            self._alias, self._drawn = alias, None
            self._name_adapter()
            self._draw()

        pick_model(self._feed, self._actions.base_name, choose)

    def _choose_repeats(self, key: str) -> None:
        self._repeats = key

    def _choose_limit(self, key: str) -> None:
        self._limit, self._drawn = key, None
        self._draw()

    def _name_adapter(self) -> None:
        say(self._name, self._alias or "No adapter is registered")
        suited = {voice.alias: voice.prompts[0] for voice in demo_voices()}
        if self._prompt.value in {PROMPT, *suited.values()}:  # not the visitor's own
            self._prompt.value = suited.get(self._alias, PROMPT)
        is_adapter = self._feed.adapter(self._alias) is not None
        enable(self._go, is_adapter and not self._why_not, self._why_not or "Choose an adapter")

    async def _start(self) -> None:
        say(self._fault, "")
        try:
            options = ColdWarmOptions(
                adapter=self._alias,
                prompt_ids=await self._actions.prompt_ids(str(self._prompt.value or PROMPT)),
                repeats=int(self._repeats),
                store_bytes_per_s=int(self._limit) * MIB,
            )
            caller = self._actions.caller
            self._cold_warm.start(options, caller=caller)
        except LoradeckError as refusal:
            say(self._fault, refusal.message)
            return
        self._began_by = caller
        self._draw()

    def _halt(self) -> None:
        try:
            self._cold_warm.stop(caller=self._actions.caller)
        except LoradeckError as refusal:
            say(self._fault, refusal.message)

    async def _put_back(self) -> None:
        enable(self._reset, enabled=False, why_not="Putting the adapter back")
        try:
            await run.io_bound(self._cold_warm.reset, caller=self._actions.caller)
        except LoradeckError as refusal:
            say(self._fault, refusal.message)
        enable(self._reset, not self._why_not, self._why_not)
        self._draw()

    def _draw(self) -> None:
        state = self._cold_warm.state
        if state is self._drawn:
            return
        self._drawn = state
        running = state.phase != "idle"
        self._stop.set_visibility(running)
        self._go.set_visibility(not running)
        enable(self._stop, state.phase == "running" and not self._why_not, self._why_not or "It is stopping")
        say(self._progress, view.progress_words(state))
        say(self._headline, view.headline(state))
        say(self._sub, self._sub_words(state))
        say(self._fault, state.fault)
        limit = state.options.store_bytes_per_s if state.options is not None else int(self._limit) * MIB
        self._lanes.show(state, state.alias or self._alias, limit)
        self._cards.show(state)
        say(self._conditions, self._conditions_words(state))
        say(self._restored, f"{state.alias} is back where it was: {state.restored}." if state.restored else "")

    def _sub_words(self, state: ColdWarmState) -> str:
        row = self._feed.adapter(state.alias) if state.alias else None
        if state.options is None or row is None:
            return "Six starting points, one at a time: same prompt, same adapter, greedy."
        return f"Time to the first token: same prompt, same adapter ({row.alias}, r{row.rank}, {fmt.size(row.bytes)}), greedy."

    def _conditions_words(self, state: ColdWarmState) -> str:
        device = self._feed.snapshot.device
        scale = view.scale_of(state)
        date = time.strftime("%d %b %Y", time.localtime(state.began_unix or time.time())).lstrip("0")
        parts = [device.name or device.kind.upper(), f"{device.base} {fmt.precision(device.dtype)}".strip(), date, "one request at a time"]
        if state.load_before is not None:
            parts.append(f"machine load {state.load_before:.1f} before")
        if state.options is not None:
            parts.append(fmt.plural(len(state.options.prompt_ids), "prompt token"))
        words = ", ".join(part for part in parts if part) + "."
        if scale is not None and scale.right_s is not None:
            words += f" The scale changes at {fmt.latency_text(scale.left_s)}."
        return words + " The naive lanes may find the base in the page cache."


def first_ready(feed: Feed) -> str:
    """The alias of the adapter that was registered first; empty without one."""
    ready = [row for row in feed.snapshot.adapters if row.lifecycle == "ready"]
    return min(ready, key=lambda row: row.registered_unix).alias if ready else ""


def _legend() -> None:
    with box("cold-legend"):
        for kind, word in view.KINDS.items():
            with box("key"):
                box(f"swatch k-{kind}", "span")
                text(word)
        with box("key"):
            box("cold-mark", "span")
            text("first token")
