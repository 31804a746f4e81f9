"""What was done, with a way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, icon, say, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nicegui.element import Element

UNDO_S: Final = 10
MAX_TOASTS: Final = 3


class Toasts:
    """The stack at the bottom right of one page, at most three high."""

    def __init__(self) -> None:
        self._stack: Element | None = None
        self._open: list[Element] = []

    def mount(self) -> None:
        """Create the stack where the page ends, above everything else."""
        self._stack = box("toasts").props("role=status aria-live=polite")

    def show(self, message: str, *, glyph: str = "check", level: str = "", undo: Callable[[], Awaitable[None]] | None = None) -> None:
        """Say ``message``; with ``undo`` it can be taken back for ten seconds."""
        with self.keep("toast") as toast:
            icon(glyph, level)
            text(message, "message")
            if undo is not None:
                self._undo_button(toast, undo)
            button("", lambda: self.close(toast), kind="quiet", glyph="close", small=True, hint="Close")
            ui.timer(UNDO_S, lambda: self.close(toast), once=True)

    def keep(self, classes: str) -> Element:
        """A toast to be filled by whoever asks, who closes it too; the oldest gives way to it."""
        assert self._stack is not None, "a toast belongs to a finished page"
        while len(self._open) >= MAX_TOASTS:
            self.close(self._open[0])
        with self._stack:
            toast = box(classes)
        self._open.append(toast)
        return toast

    def _undo_button(self, toast: Element, undo: Callable[[], Awaitable[None]]) -> None:
        async def take_back() -> None:
            self.close(toast)
            await undo()

        with button("Undo", take_back, glyph="undo", small=True):
            left = text(f"{UNDO_S} s", "left")
        remaining = iter(range(UNDO_S - 1, -1, -1))
        ui.timer(1.0, lambda: say(left, f"{next(remaining, 0)} s"))

    def close(self, toast: Element) -> None:
        """Take it away; nothing when it is gone already."""
        if toast in self._open:
            self._open.remove(toast)
            toast.delete()
