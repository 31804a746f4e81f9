"""What a pin would cost, with its arithmetic, and the one button that does it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nicegui import background_tasks

from console import format as fmt
from console.actions import Command
from console.horizon import DEFAULT_HORIZON, FOR_WORDS, HORIZONS, end_of
from console.widgets.elements import box, button, enable, field, icon, segments, text
from console.widgets.refusal import bill_and_rule, ledger, refusal, rule_words
from engine import LoradeckError

if TYPE_CHECKING:
    from console.actions import Actions
    from engine import AdapterRow, ControlOutcome


class PinBox:
    """Belongs to an open drawer and its adapter. The preview is asked for, never guessed."""

    def __init__(self, row: AdapterRow, actions: Actions) -> None:
        self._row = row
        self._actions = actions
        self._horizon = DEFAULT_HORIZON
        with box("pin-box"):
            with box("pin-head"):
                icon("pin")
                text("Pin to device", "card-title")
                box("gap")
                segments(HORIZONS, DEFAULT_HORIZON, self._choose, "Until")
            self._reason = field("Reason", placeholder="Reason, kept with the pin", on_change=lambda _: self._arm())
            self._reason.set_visibility(False)
            self._preview = box("preview")
            with box("pin-foot"):
                self._ready = text("", "faint")
                box("gap")
                self._button = button("Pin", self._pin, kind="primary")
        self._fits = False
        self.look()

    def look(self) -> None:
        """Ask what a pin would do now."""
        background_tasks.create(self._look(), context=self._preview)

    async def _look(self) -> None:
        try:
            outcome = await self._actions.preview(self._command())
        except LoradeckError as error:
            self._fits = False
            self._preview.clear()
            with self._preview:
                refusal("pin", error)
        else:
            self._fits = True
            self._show(outcome)
        self._arm()

    def _show(self, outcome: ControlOutcome) -> None:
        bill, rule = bill_and_rule(outcome.arithmetic)
        self._preview.clear()
        with self._preview:
            if bill:
                ledger(bill, outcome.victims)
            words, left = rule_words(rule)
            if left:
                with box("rule-line"):
                    icon("check", "ok")
                    text(words, "faint")
                    text(left, "name")
        eta = f"Ready in about {fmt.latency_text(outcome.eta_s)}. " if outcome.eta_s else ""
        self._ready.text = f"{eta}No request is stopped."

    def _choose(self, horizon: str) -> None:
        self._horizon = horizon
        self._reason.set_visibility(horizon == "none")
        self._arm()

    def _arm(self) -> None:
        """Name the button by what it will do; it is off until that can be done."""
        self._button.default_slot.children[0].text = f"Pin {FOR_WORDS[self._horizon]}"  # type: ignore[attr-defined]
        needs_reason = self._horizon == "none" and not (self._reason.value or "").strip()
        enable(self._button, self._fits and not needs_reason, "A pin with no end needs a reason" if needs_reason else "It would not fit")
        if not self._fits:
            self._ready.text = "Unpin or evict others first."

    def _command(self) -> Command:
        return Command(
            verb="pin",
            ref=self._row.id,
            tenant=self._row.tenant,
            tier="device",
            until_unix=end_of(self._horizon, time.time()),
            reason=(self._reason.value or "").strip(),
        )

    async def _pin(self) -> None:
        await self._actions.apply([self._command()])
