"""Register adapters: one folder, or many from an archive, a manifest or a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, segments, text
from console.widgets.folder_form import FolderForm
from console.widgets.import_form import ImportForm, ManifestForm, PrefixForm, UploadForm

if TYPE_CHECKING:
    from console.actions import Actions
    from console.import_actions import ImportActions

WAYS: Final = {"folder": "Folder", "upload": "Upload", "manifest": "Manifest", "prefix": "Prefix"}
FORMS: Final[dict[str, type[ImportForm]]] = {"upload": UploadForm, "manifest": ManifestForm, "prefix": PrefixForm}


def register_dialog(actions: Actions, imports: ImportActions) -> None:
    """Open the form; it is gone once closed."""
    with ui.dialog().props("transition-duration=0 persistent") as dialog:
        RegisterDialog(actions, imports, dialog)
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


class RegisterDialog:
    """Four ways, one at a time; what was typed in one is kept while another is looked at."""

    def __init__(self, actions: Actions, imports: ImportActions, dialog: ui.dialog) -> None:
        self._actions, self._imports, self._dialog = actions, imports, dialog
        with box("dialog register-dialog").props('role=dialog aria-label="Register adapters"') as self._frame:
            with box("dialog-head"):
                text("Register adapters", "dialog-title", "h2")
                button("", dialog.close, kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
            segments(WAYS, "folder", self._show, "From")
            self._places = {way: box("way") for way in WAYS}
        self._made: set[str] = set()
        self._show("folder")

    def _show(self, way: str) -> None:
        for name, place in self._places.items():
            place.set_visibility(name == way)
        self._frame.classes(add="" if way == "folder" else "wide", remove="wide" if way == "folder" else "")
        if way in self._made:
            return
        self._made.add(way)
        with self._places[way]:
            if way == "folder":
                FolderForm(self._actions, self._close)
            else:
                FORMS[way](self._imports, self._close)

    def _close(self) -> None:
        self._dialog.close()
