"""A long operation as one toast: count, rate, time left, Cancel. It lives on under Operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.operation_words import UNFINISHED, ended, how_far, share, title
from console.widgets.elements import box, button, icon, say, text
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.import_actions import ImportActions
    from engine import Progress

LOOK_EVERY_S: Final = 1.0
STAYS_S: Final = 10.0


def follow(first: Progress, actions: ImportActions, on_end: Callable[[], None] = lambda: None) -> None:
    """Show it until it ends, then how it ended; ``on_end`` hears of that."""
    with actions.toasts.keep("toast operation") as toast:
        with box("toast-line"):
            icon("operations")
            text(title(first.record), "message ellipsis")
            cancel = button("Cancel", kind="quiet", small=True)
            with box("btn quiet small", "a").props(f"href=/operations?open={first.record.id}") as rows:
                text("See rows")
            button("", lambda: actions.toasts.close(toast), kind="quiet", glyph="close", small=True, hint="Close; it goes on")
        words = text(how_far(first), "muted toast-words")
        with box("op-track"):
            fill = box("op-fill")
        fill.style(f"width: {share(first.record):.1%}")

        async def look() -> None:
            try:
                now = await actions.get(first.record.id)
            except LoradeckError as error:
                say(words, error.message)
                return
            if toast.is_deleted:
                return
            fill.style(f"width: {share(now.record):.1%}")
            if now.record.state in UNFINISHED:
                say(words, how_far(now))
                return
            say(words, ended(now.record))
            cancel.set_visibility(False)
            timer.deactivate()
            on_end()
            ui.timer(STAYS_S, lambda: actions.toasts.close(toast), once=True)

        async def stop() -> None:
            cancel.set_visibility(False)
            await actions.act("cancel", first.record.id)

        cancel.on("click", stop, args=[])
        rows.props["title"] = "Operations"
        timer = ui.timer(LOOK_EVERY_S, look)
