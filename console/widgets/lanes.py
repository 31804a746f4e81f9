"""The playground's lanes: adapter and prompt on the left, its stream and its numbers on the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import format as fmt
from console.widgets.elements import box, button, drawing, icon_svg, say, text
from console.widgets.picker import pick_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.batch import LaneRun
    from console.feed import Feed

FINISH_GLYPHS: Final = {"stop": ("check", "ok"), "length": ("check", "ok"), "cancelled": ("paused", "muted"), "error": ("crit", "crit")}


class Lane:
    """One row of the form. Belongs to one client."""

    def __init__(self, feed: Feed, base: str, *, model: str, prompt: str, on_remove: Callable[[Lane], None]) -> None:
        self._feed, self._base = feed, base
        self.model = model
        with box("lane").props("role=listitem") as self.element:
            self._number = text("", "lane-number")
            with box("lane-model", "button").props('type=button aria-label="Choose a model"').on("click", self._pick, args=[]):
                with box("lane-name"):
                    self._tenant = text("", "muted")
                    self._name = text("", "name")
                self._facts = drawing("", "ico", "span")
                self._tier = text("", "muted")
                self._digest = text("", "code")
            self._prompt = (
                ui.textarea(value=prompt).classes("field lane-prompt").props('borderless dense autogrow rows=1 aria-label="Prompt"')
            )
            with box("lane-output"):
                self._output = text("", "tail", "div")
            with box("lane-ttft"):
                self._ttft = text("", "n")
                self._ttft_unit = text("", "u")
            with box("lane-tokens"):
                self._tokens = text("")
                with box("finish"):
                    self._mark = drawing("", "ico", "span")
                    self._finish = text("")
            self._speed = text("", "lane-speed")
            self._remove = button("", lambda: on_remove(self), kind="quiet", glyph="close", small=True, hint="Remove this lane")
        self._name_model()
        self.show(None)

    @property
    def prompt(self) -> str:
        """What is typed."""
        return str(self._prompt.value or "")

    def number(self, place: int) -> None:
        """Its place from the top."""
        say(self._number, str(place))

    def lock(self, running: bool) -> None:  # noqa: FBT001 - reads as a sentence
        """Hold the form still while the batch runs."""
        self._prompt.props.set_bool("readonly", running)
        self._remove.set_visibility(not running)
        self.element.classes(add="is-running" if running else "", remove="" if running else "is-running")

    def show(self, run: LaneRun | None) -> None:
        """Show what came so far; None is before the first run."""
        self.place(run)
        self.element.classes(
            add="is-streaming" if run and run.state == "streaming" else "",
            remove="" if run and run.state == "streaming" else "is-streaming",
        )
        if run is None:
            for element in (self._output, self._finish, self._ttft_unit):
                say(element, "")
            for element in (self._ttft, self._tokens, self._speed):
                say(element, fmt.DASH)
            self._mark.content = ""
            return
        say(self._output, run.error or run.text or ("waiting for its adapter" if run.tier_at_arrival not in {None, "device"} else ""))
        self._output.classes(add="faint" if not run.text else "", remove="" if not run.text else "faint")
        number, unit = fmt.latency(run.ttft_s)
        say(self._ttft, number)
        say(self._ttft_unit, unit)
        say(self._tokens, fmt.count(len(run.token_ids)) if run.token_ids else fmt.DASH)
        say(self._speed, fmt.rate(run.tokens_per_s))
        glyph, level = ("crit", "crit") if run.error else FINISH_GLYPHS.get(run.finish, ("", ""))
        self._mark.content = icon_svg(glyph, level) if glyph else ""
        say(self._finish, "failed" if run.error else run.finish)

    def place(self, run: LaneRun | None) -> None:
        """Tier (at arrival, once sent), pin and digest of the version that its name leads to or, once sent, that answers."""
        row = self._feed.adapter(run.adapter if run is not None and run.adapter is not None else self.model)
        tier = run.tier_at_arrival if run else row.tier if row else None
        pin = icon_svg("pinned", "violet") if row and row.pinned else ""
        self._facts.content = (icon_svg(tier) if tier else "") + pin
        say(self._tier, (tier or "base") + (", canary" if run is not None and run.by_canary else ""))
        say(self._digest, fmt.digest(row.id) if row else "")

    def _pick(self) -> None:
        if "is-running" not in self.element.classes:
            pick_model(self._feed, self._base, self._choose)

    def _choose(self, model: str) -> None:
        self.model = model
        self._name_model()
        self.show(None)

    def _name_model(self) -> None:
        tenant, slash, name = self.model.rpartition("/")
        say(self._tenant, tenant + slash)
        say(self._name, name)
