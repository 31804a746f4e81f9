"""Before something that touches users or destroys: what it does, why, and for what cannot be undone the name, typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from console.widgets.elements import box, button, enable, field, icon, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


def confirm_dialog(
    title: str, effects: Sequence[str], label: str, act: Callable[[str], Awaitable[bool]], *, name: str = "", note: str = ""
) -> None:
    """Open the dialog; ``act`` gets the reason and says whether it was done. With a ``name``, that has to be typed, and a reason given."""
    destroys = bool(name)
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog").props("role=alertdialog") as frame:
        frame.props["aria-label"] = title
        text(title, "dialog-title", "h2")
        _effects(effects, "crit" if destroys else "warn")
        typed = None
        if destroys:
            with box("form-field"):
                with box("typed-label"):
                    text("Type", "label")
                    text(name, "code")
                typed = field("Its name", on_change=lambda _: arm())
        with box("form-field"):
            text("Reason, kept in the audit log", "label")
            reason = field("Reason", placeholder="Required" if destroys else "", on_change=lambda _: arm())

        async def go() -> None:
            if await act(str(reason.value or "").strip()):
                dialog.close()

        with box("dialog-foot"):
            text(note, "hint")
            button("Cancel", dialog.close, kind="quiet")
            doing = button(label, go, kind="destroy" if destroys else "primary")

    def arm() -> None:
        named = typed is None or str(typed.value or "").strip() == name
        said = bool(str(reason.value or "").strip()) or not destroys
        enable(doing, named and said, "The name and a reason first")

    arm()
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


def _effects(effects: Sequence[str], level: str) -> None:
    with box("checks"):
        for effect in effects:
            with box("check-line"):
                icon(level, level)
                text(effect)
