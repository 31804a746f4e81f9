"""Fields that the ways to register share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from console.widgets.elements import box, field, segments, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui import ui

IF_TAKEN: Final = SimpleNamespace(refuse="refuse", move="move")
TAKEN_WORDS: Final = {IF_TAKEN.refuse: "Reject it", IF_TAKEN.move: "Move the alias to it"}


def labelled(label: str, placeholder: str, hint: str, *, on_change: Callable[[], None], value: str = "") -> ui.input:
    """A field of a form with its label and a line that says what belongs in it."""
    text(label, "label")
    with box("form-field"):
        element = field(label, value=value, placeholder=placeholder, on_change=lambda _: on_change())
        text(hint, "faint small")
    return element


def taken_choice(on_choose: Callable[[str], None]) -> None:
    """What becomes of new content under an alias that names another version."""
    with box("form-field"):
        segments(TAKEN_WORDS, IF_TAKEN.refuse, on_choose, "If the alias names another version")
