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

HEADLINES: Final = {
    "pin": "Not pinned",
    "unpin": "Not unpinned",
    "warm": "Not warmed",
    "evict": "Not evicted",
    "register": "Not registered",
}


def show_refusal(verb: str, error: LoradeckError) -> None:
    """Open a dialog that says what was refused and why."""
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
            text(HEADLINES[verb], "refusal-title")
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
    """The sum in pages: each line its sign, the last one the result."""
    idle = {victim.alias: victim.idle_s for victim in victims}
    with box("ledger"):
        for index, (label, pages) in enumerate(lines):
            first, last = index == 0, index == len(lines) - 1
            with box("ledger-line sum" if last and len(lines) > 1 else "ledger-line"):
                text(label)
                for alias, idle_s in idle.items():
                    if label.endswith(alias):
                        text(f"idle {fmt.duration(idle_s)}", "faint")
                box("gap")
                text(fmt.count(pages) if first or last else fmt.signed(pages), "value")
                if first:
                    text("pages", "faint")
