"""Names of another base: what would become of each, then one operation that registers them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, segments, text
from console.widgets.import_form import ImportForm
from engine import Import

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.import_actions import ImportActions

RECORDS: Final = {"refuse": "Reject it", "declare": "Declare it compatible"}


def upgrade_dialog(actions: ImportActions, on_end: Callable[[], None], *, folder: str = "", name: str = "") -> None:
    """Open it for the base that serves, or to look ahead for the one in ``folder``; it is gone once closed."""
    title = f"Register again for {name}" if folder else "Register again"
    with (
        ui.dialog().props("transition-duration=0 persistent") as dialog,
        box("dialog register-dialog wide").props("role=dialog") as frame,
    ):
        frame.props["aria-label"] = title
        with box("dialog-head"):
            text(title, "dialog-title", "h2")
            button("", dialog.close, kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
        UpgradeForm(actions, dialog.close, on_end, folder=folder)
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


class UpgradeForm(ImportForm):
    """Every name that leads to a version of another base comes from its source again, through the gate."""

    NOUN = "name"

    def __init__(self, actions: ImportActions, close: Callable[[], object], on_end: Callable[[], None], *, folder: str) -> None:
        self._folder, self._on_end = folder, on_end
        self._compatible = False
        if folder:
            self.why_not_apply = "Start Loradeck with this base first"
        super().__init__(actions, close)

    def _fields(self) -> None:
        text("Names", "label")
        with box("form-field"):
            text("All that lead to a version of another base; each is read from its source and judged by the gate.", "muted", "p")
        text("Other record", "label")
        with box("form-field"):
            segments(RECORDS, "refuse", self._choose, "If the training record names another base")
            text("What becomes of an adapter whose training record names another base", "faint small")

    def _rules(self) -> None:
        """Each name keeps its tenant, and moves to its new version."""

    def _choose(self, choice: str) -> None:
        self._compatible = choice == "declare"
        self._changed()

    def _request(self) -> Import:
        return Import(kind="base", source=self._folder, compatible_base=self._compatible)

    def _ended(self) -> None:
        self._on_end()
