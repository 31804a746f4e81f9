"""A part of the drawer that asks the registry: its place while it waits, and when there is no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import background_tasks

from console.widgets.elements import box, button, icon, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nicegui.element import Element

    from engine import LoradeckError

LINES = 4


def loading(place: Element, load: Callable[[], Awaitable[None]]) -> None:
    """Grey lines where the answer will be, until ``load`` replaces them."""
    with place, box("skeleton").props('role=status aria-label="Loading"'):
        for _ in range(LINES):
            box("bone")
    background_tasks.create(load(), context=place)


def unanswered(place: Element, error: LoradeckError, again: Callable[[], Awaitable[None]]) -> None:
    """What failed, and another try."""
    place.clear()
    with place, box("check-line").props("role=alert"):
        icon("crit", "crit")
        text(error.message)
        button("Try again", again, small=True)
