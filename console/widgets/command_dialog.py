"""Pin, warm or evict several adapters: what would happen, then one button."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks, ui

from console import format as fmt
from console.actions import Command
from console.horizon import DEFAULT_HORIZON, FOR_WORDS, HORIZONS, end_of
from console.widgets.elements import box, button, enable, field, icon, segments, text
from console.widgets.refusal import bill_and_rule, ledger, refusal, rule_words
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.actions import Actions
    from engine import AdapterId, AdapterRow, ControlOutcome, Tier, Verb

SHOWN: Final = 8
VERB_WORDS: Final = {"pin": "Pin", "warm": "Warm", "evict": "Evict", "unpin": "Unpin"}
TIER_CHOICES: Final[dict[str, dict[str, str]]] = {
    "warm": {"device": "device", "host": "host"},
    "evict": {"host": "to host", "disk": "to disk"},
}


def command_dialog(verb: Verb, rows: Sequence[AdapterRow], actions: Actions) -> None:
    """Open the dialog; it is gone once closed."""
    with ui.dialog().props("transition-duration=0") as dialog:
        CommandForm(verb, rows, actions, dialog)
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


class CommandForm:
    """One command on several adapters. Belongs to its dialog."""

    def __init__(self, verb: Verb, rows: Sequence[AdapterRow], actions: Actions, dialog: ui.dialog) -> None:
        self._verb, self._rows, self._actions, self._dialog = verb, rows, actions, dialog
        self._allowed: Sequence[AdapterRow] = rows
        self._horizon = DEFAULT_HORIZON
        self._tier: Tier = "host" if verb == "evict" else "device"
        name = rows[0].alias if len(rows) == 1 else fmt.plural(len(rows), "adapter")
        self._title = f"{VERB_WORDS[verb]} {name}"
        with box("dialog").props("role=dialog") as frame:
            frame.props["aria-label"] = self._title
            self._head()
            self._list()
            self._choices()
            self._preview = box("preview")
            self._foot()
        self._look()

    def _head(self) -> None:
        with box("dialog-head"):
            text(self._title, "dialog-title", "h2")
            button("", self._dialog.close, kind="quiet", glyph="close", small=True, hint="Close")

    def _list(self) -> None:
        with box("dialog-rows"):
            for row in self._rows[:SHOWN]:
                with box("dialog-row"):
                    text(row.alias, "name ellipsis")
                    with box("tier"):
                        icon(row.tier)
                        text(row.tier)
                    text(fmt.plural(row.pages, "page"), "num")
            if len(self._rows) > SHOWN:
                text(f"and {len(self._rows) - SHOWN:,} more", "faint")

    def _choices(self) -> None:
        with box("choices"):
            if self._verb == "pin":
                text("Until", "label")
                segments(HORIZONS, DEFAULT_HORIZON, self._choose_end, "Until")
                text("Reason", "label")
                self._reason = field("Reason", placeholder="Kept with the pin", on_change=lambda _: self._arm())
            elif self._verb in TIER_CHOICES:
                text("Where", "label")
                segments(TIER_CHOICES[self._verb], self._tier, self._choose_tier, "Where")

    def _foot(self) -> None:
        with box("dialog-foot"):
            self._hint = text("", "hint")
            button("Cancel", self._dialog.close, kind="quiet")
            self._button = button(self._title, self._apply, kind="destroy" if self._verb == "evict" else "primary")
        self._arm()

    def _choose_end(self, horizon: str) -> None:
        self._horizon = horizon
        self._arm()

    def _choose_tier(self, tier: str) -> None:
        self._tier = tier  # type: ignore[assignment]
        self._look()

    def _arm(self) -> None:
        needs_reason = self._verb == "pin" and self._horizon == "none" and not (self._reason.value or "").strip()
        words = self._title
        if 0 < len(self._allowed) < len(self._rows):
            words = f"{VERB_WORDS[self._verb]} {len(self._allowed)} of {fmt.plural(len(self._rows), 'adapter')}"
        if self._verb == "pin":
            words += f" {FOR_WORDS[self._horizon]}"
        self._button.default_slot.children[0].text = words  # type: ignore[attr-defined]
        why_not = "A pin with no end needs a reason" if needs_reason else "Refused; the reason is above"
        enable(self._button, bool(self._allowed) and not needs_reason, why_not)

    def _commands(self, rows: Sequence[AdapterRow]) -> list[Command]:
        until = end_of(self._horizon, time.time()) if self._verb == "pin" else None
        reason = (self._reason.value or "").strip() if self._verb == "pin" else ""
        return [Command(verb=self._verb, ref=row.id, tenant=row.tenant, tier=self._tier, until_unix=until, reason=reason) for row in rows]

    def _look(self) -> None:
        background_tasks.create(self._ask(), context=self._preview)

    async def _ask(self) -> None:
        outcomes: list[ControlOutcome] = []
        refused: dict[AdapterId, LoradeckError] = {}
        for row, command in zip(self._rows, self._commands(self._rows), strict=True):
            try:
                outcomes.append(await self._actions.preview(command))
            except LoradeckError as error:
                refused[row.id] = error
        self._allowed = [row for row in self._rows if row.id not in refused]
        self._preview.clear()
        with self._preview:
            self._show(outcomes, refused)
        etas = [outcome.eta_s for outcome in outcomes if outcome.eta_s is not None]
        self._hint.text = f"Ready in about {fmt.latency_text(sum(etas))}" if etas and self._verb != "evict" else ""
        self._arm()

    def _show(self, outcomes: Sequence[ControlOutcome], refused: dict[AdapterId, LoradeckError]) -> None:
        if refused and not outcomes:
            refusal(self._verb, next(iter(refused.values())))
            return
        if len(outcomes) == 1 and outcomes[0].arithmetic:
            _one(outcomes[0])
        else:
            _many(self._verb, outcomes)
        with box("checks"):
            for row in [row for row in self._rows if row.id in refused][:SHOWN]:
                _effect("crit", "crit", f"Not {row.alias}. {refused[row.id].message}")
            if len(refused) > SHOWN:
                _effect("crit", "crit", f"And not {len(refused) - SHOWN:,} more.")

    async def _apply(self) -> None:
        self._dialog.close()
        await self._actions.apply(self._commands(self._allowed))


def _one(outcome: ControlOutcome) -> None:
    bill, rule = bill_and_rule(outcome.arithmetic)
    ledger(bill, outcome.victims)
    words, left = rule_words(rule)
    if left:
        with box("rule-line"):
            icon("check", "ok")
            text(words, "faint")
            text(left, "name")


def _many(verb: str, outcomes: Sequence[ControlOutcome]) -> None:
    leases = sum(outcome.waiting_leases or outcome.adapter.leases for outcome in outcomes)
    victims = {victim.id: victim for outcome in outcomes for victim in outcome.victims}
    with box("checks"):
        if verb == "evict":
            waits = (
                f"{fmt.plural(leases, 'running request')} finish first; then the weights leave."
                if leases
                else "No running request holds them. They leave now."
            )
            _effect("warn" if leases else "check", "warn" if leases else "ok", waits)
            _effect("arrow", "muted", "The next request for each of them is a cold start.")
        elif victims:
            _effect(
                "evict",
                "muted",
                f"{fmt.plural(len(victims), 'idle adapter')} would leave: " + ", ".join(v.alias for v in list(victims.values())[:4]),
            )
        else:
            _effect("check", "ok", "Nothing has to leave for it.")


def _effect(glyph: str, level: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, level)
        text(words)
