"""Point a name at another version, send a share of it there, or promote a canary: what it costs first, then one button."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks, ui

from console import format as fmt
from console.widgets.drawer_validation import check_list
from console.widgets.elements import box, button, enable, field, icon, segments, text
from console.widgets.refusal import ledger, refusal
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.stored import StoredVersion
    from console.version_actions import MoveVerb, VersionActions
    from engine import AliasRecord, Bill, MoveOutcome

SHARES: Final = {"0.01": "1 %", "0.05": "5 %", "0.1": "10 %", "0.25": "25 %", "0.5": "50 %"}
FIRST_SHARE: Final = "0.05"
TITLES: Final[dict[MoveVerb, str]] = {"move": "Move", "canary": "Canary on", "promote": "Promote", "rollback": "Roll back"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be done: one of these names to ``version``; ``versions`` is the line, for what the dialog says of it."""

    verb: MoveVerb
    aliases: Sequence[AliasRecord]
    version: StoredVersion
    versions: Sequence[StoredVersion]


def move_dialog(wish: Wish, actions: VersionActions, on_done: Callable[[], None]) -> None:
    """Open the dialog; it is gone once closed."""
    with ui.dialog().props("transition-duration=0") as dialog:
        MoveForm(wish, actions, on_done, dialog)
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


class MoveForm:
    """One change of one name. Belongs to its dialog."""

    def __init__(self, wish: Wish, actions: VersionActions, on_done: Callable[[], None], dialog: ui.dialog) -> None:
        self._verb, self._version, self._actions, self._on_done, self._dialog = wish.verb, wish.version, actions, on_done, dialog
        self._versions = {one.key: one for one in wish.versions}
        self._aliases = {alias.name: alias for alias in wish.aliases}
        self._alias = wish.aliases[0]
        self._share = FIRST_SHARE
        self._asked = 0
        """How often it was asked what the change would cost: only the last answer is of what is chosen."""
        with box("dialog").props("role=dialog") as frame:
            frame.props["aria-label"] = TITLES[wish.verb]
            with box("dialog-head"):
                self._title = text("", "dialog-title", "h2")
                button("", dialog.close, kind="quiet", glyph="close", small=True, hint="Close")
            self._choices()
            self._preview = box("preview")
            with box("dialog-foot"):
                self._hint = text("", "hint")
                button("Cancel", dialog.close, kind="quiet")
                self._button = button(TITLES[wish.verb], self._apply, kind="primary")
        self._look()

    def _choices(self) -> None:
        with box("choices") as self._form:
            if len(self._aliases) > 1:
                text("Name", "label")
                segments({name: name for name in self._aliases}, self._alias.name, self._choose_alias, "Name")
            if self._verb == "canary":
                text("Share", "label")
                segments(SHARES, self._share, self._choose_share, "Share")
            text("Reason", "label")
            self._why = field("Reason", placeholder="Kept in the audit log")

    def _choose_alias(self, name: str) -> None:
        self._alias = self._aliases[name]
        self._look()

    def _choose_share(self, share: str) -> None:
        self._share = share
        self._look()

    def _look(self) -> None:
        enable(self._button, enabled=False, why_not="Asking what it would cost")
        self._asked += 1
        background_tasks.create(self._ask(self._asked), context=self._preview)

    async def _ask(self, number: int) -> None:
        try:
            outcome = await self._change(preview=True)
        except LoradeckError as error:
            if number == self._asked:
                self._refused(error)
            return
        if number != self._asked:
            return
        words = {
            "move": f"Move {self._alias.name} to {self._version.number}",
            "canary": f"Send {SHARES[self._share]} of {self._alias.name} to {self._version.number}",
            "promote": f"Promote {self._version.number} to all of {self._alias.name}",
        }[self._verb]
        self._title.text = words
        self._button.default_slot.children[0].text = TITLES[self._verb] if self._verb != "canary" else "Start canary"  # type: ignore[attr-defined]
        self._form.set_visibility(True)
        self._preview.clear()
        with self._preview:
            self._show(outcome)
        enable(self._button, enabled=True)

    def _show(self, outcome: MoveOutcome) -> None:
        now = self._versions.get(outcome.before.key)
        with box("from-to"):
            _version("Now", outcome.before.number, outcome.before.id, now)
            icon("arrow", "muted")
            after = outcome.canary or outcome.after
            _version(SHARES[self._share] if self._verb == "canary" else "Then", after.number, after.id, self._version)
        if outcome.bill.arithmetic:
            ledger(outcome.bill.arithmetic)
        with box("checks"):
            is_there = outcome.bill.is_there
            _effect("check" if is_there else outcome.bill.tier, "ok" if is_there else "", bill_words(outcome.bill))
            if outcome.bill.in_flight and self._verb != "canary":
                ends = f"{fmt.plural(outcome.bill.in_flight, 'request')} in flight end on version {outcome.before.number}."
                _effect("arrow", "muted", ends)
            _effect("undo", "muted", "Can be rolled back in one click.")

    def _refused(self, error: LoradeckError) -> None:
        self._title.text = f"{TITLES[self._verb]} {self._alias.name}"
        self._form.set_visibility(self._verb == "canary" or len(self._aliases) > 1)
        self._preview.clear()
        with self._preview:
            refusal(self._verb, error)
            if self._version.checks:
                text(f"The report of version {self._version.number}", "card-title")
                check_list(self._version.checks, brief=True)
        enable(self._button, enabled=False, why_not="Refused; the reason is above")

    async def _apply(self) -> None:
        self._asked += 1
        enable(self._button, enabled=False, why_not="Under way")
        self._hint.text = "Bringing it near, then moving the name…"
        try:
            await self._change(preview=False)
        except LoradeckError as error:
            self._hint.text = ""
            self._refused(error)
            return
        self._dialog.close()
        self._on_done()

    async def _change(self, *, preview: bool) -> MoveOutcome:
        share = float(self._share) if self._verb == "canary" else 0.0
        why = str(self._why.value or "").strip()
        return await self._actions.move(self._verb, self._alias, self._version.place.ref, share=share, why=why, preview=preview)


def bill_words(bill: Bill) -> str:
    """What a move does before it happens, in a sentence."""
    if bill.is_there:
        return f"As warm as now: on {bill.tier} already."
    eta = f", in about {fmt.latency_text(bill.eta_s)}" if bill.eta_s is not None else ""
    return f"Brought to {bill.tier} first{eta}, as warm as now."


def _version(label: str, number: int, digest: str, stored: StoredVersion | None) -> None:
    with box("from-to-version"):
        text(label, "label")
        with box("version-line"):
            text(str(number), "vnum")
            text(fmt.digest(digest), "code")
        score = None if stored is None else stored.score
        text(f"{fmt.percent(score)} % {stored.metric if stored else ''}".strip() if score is not None else "no score", "faint")


def _effect(glyph: str, level: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, level)
        text(words)
