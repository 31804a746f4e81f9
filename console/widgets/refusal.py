"""A refusal with its arithmetic, and the ledger that previews use too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import format as fmt
from console.widgets.elements import box, button, icon, text
from engine import Conflict, LoradeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine import Victim

SUMS: Final = frozenset({"Free after", "Yours after", "Left"})
RESULTS: Final = SUMS | {"Needed"}
HEADLINES: Final = {
    "pin": "Not pinned",
    "unpin": "Not unpinned",
    "warm": "Not warmed",
    "evict": "Not evicted",
    "register": "Not registered",
    "import": "Nothing was begun",
    "move": "Not moved",
    "canary": "No canary",
    "promote": "Not promoted",
    "rollback": "Not rolled back",
    "retire": "Not retired",
    "archive": "Not archived",
    "delete": "Not deleted",
    "restore": "Not restored",
}


def show_refusal(verb: str, error: LoradeckError) -> None:
    """Open a dialog that says what was refused and why; ``verb`` is one of ``HEADLINES``, or a headline."""
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog refused").props('role=alertdialog aria-label="Refused"'):
        refusal(verb, error)
        with box("dialog-foot"):
            button("Close", dialog.close, kind="plain")
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


def refusal(verb: str, error: LoradeckError) -> None:
    """The message, the sum that decided or the field at fault, and the code."""
    with box("refusal").props("role=alert"):
        with box("refusal-head"):
            icon("crit", "crit")
            text(HEADLINES.get(verb, verb), "refusal-title")
            box("gap")
            text(str(error.status), "code")
        text(error.message, "refusal-message", "p")
        if isinstance(error, Conflict) and error.arithmetic:
            ledger(error.arithmetic)
        with box("refusal-facts"):
            for label, value in (("at", error.param), ("expected", error.expected), ("found", error.found), ("code", error.code)):
                if value is not None:
                    text(label, "faint")
                    text(str(value), "code")


def ledger(lines: Sequence[tuple[str, int]], victims: Sequence[Victim] = ()) -> None:
    """A sum in pages: the first line as it is, then each with its sign, results in bold."""
    idle = {f"Evict {victim.alias}": victim.idle_s for victim in victims}
    with box("ledger"):
        for index, (label, pages) in enumerate(lines):
            plain = index == 0 or label in RESULTS
            with box("ledger-line sum" if label in SUMS else "ledger-line"):
                text(label, "ledger-label")
                if label in idle:
                    text(f"idle {fmt.duration(idle[label])}", "faint")
                box("gap")
                text(fmt.count(pages) if plain else fmt.signed(pages), "value")
                if index == 0:
                    text("pages", "faint")


def bill_and_rule(lines: Sequence[tuple[str, int]]) -> tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]]:
    """The engine's two sums apart: what moves, and the floor rule, which starts with the arena."""
    at = next((index for index, (label, _) in enumerate(lines) if label == "Arena"), len(lines))
    return lines[:at], lines[at:]


def rule_words(rule: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """The floor rule as one sum: ("61,609 − 4,400 pinned − 4,096 KV floor = ", "53,113 left")."""
    amounts = dict(rule)
    if not {"Arena", "Pinned after", "KV floor", "Left"} <= amounts.keys():
        return "", ""
    pinned, floor = abs(amounts["Pinned after"]), abs(amounts["KV floor"])
    words = f"{fmt.count(amounts['Arena'])} {fmt.MINUS} {fmt.count(pinned)} pinned {fmt.MINUS} {fmt.count(floor)} KV floor = "
    return words, f"{fmt.count(amounts['Left'])} left"
