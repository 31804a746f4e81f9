"""Retire, archive or restore a version: what goes with it, who still uses it, then one button."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import background_tasks, ui

from console import format as fmt
from console.widgets.elements import box, button, enable, field, icon, text
from console.widgets.refusal import refusal
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.stored import StoredVersion
    from console.version_actions import DepartVerb, VersionActions
    from engine import Departure

NOTES: Final[dict[DepartVerb, str]] = {
    "retire": "It stays on disk and can be restored.",
    "archive": "Image and record are kept, named and proven by digest. It can be restored.",
    "restore": "Names are moved to it by hand.",
}


def depart_dialog(verb: DepartVerb, version: StoredVersion, actions: VersionActions, on_done: Callable[[], None]) -> None:
    """Open the dialog; it is gone once closed."""
    with ui.dialog().props("transition-duration=0") as dialog:
        DepartForm(verb, version, actions, on_done, dialog)
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()


class DepartForm:
    """One step of one version. Belongs to its dialog."""

    def __init__(
        self, verb: DepartVerb, version: StoredVersion, actions: VersionActions, on_done: Callable[[], None], dialog: ui.dialog
    ) -> None:
        self._verb, self._version, self._actions, self._on_done, self._dialog = verb, version, actions, on_done, dialog
        title = f"{verb.capitalize()} {version.place.ref}"
        with box("dialog").props("role=dialog") as frame:
            frame.props["aria-label"] = title
            with box("dialog-head"):
                text(title, "dialog-title", "h2")
                button("", dialog.close, kind="quiet", glyph="close", small=True, hint="Close")
            self._preview = box("preview")
            with box("choices"):
                text("Reason", "label")
                self._why = field("Reason", placeholder="Kept in the audit log")
            with box("dialog-foot"):
                text(NOTES[verb], "hint")
                button("Cancel", dialog.close, kind="quiet")
                self._button = button(verb.capitalize(), self._apply, kind="destroy" if verb == "retire" else "primary")
        enable(self._button, enabled=False, why_not="Asking what it would do")
        background_tasks.create(self._ask(), context=self._preview)

    async def _ask(self) -> None:
        try:
            outcome = await self._depart(preview=True)
        except LoradeckError as error:
            self._refused(error)
            return
        self._preview.clear()
        with self._preview, box("checks"):
            for glyph, level, words in effects(self._verb, outcome):
                with box("check-line"):
                    icon(glyph, level)
                    text(words)
        enable(self._button, enabled=True)

    def _refused(self, error: LoradeckError) -> None:
        self._preview.clear()
        with self._preview:
            refusal(self._verb, error)
        enable(self._button, enabled=False, why_not="Refused; the reason is above")

    async def _apply(self) -> None:
        enable(self._button, enabled=False, why_not="Under way")
        try:
            await self._depart(preview=False)
        except LoradeckError as error:
            self._refused(error)
            return
        self._dialog.close()
        self._on_done()

    async def _depart(self, *, preview: bool) -> Departure:
        why = str(self._why.value or "").strip()
        return await self._actions.depart(self._verb, self._version.place.ref, self._version.tenant, why=why, preview=preview)


def effects(verb: DepartVerb, outcome: Departure) -> list[tuple[str, str, str]]:
    """What it does, as (glyph, level, sentence)."""
    if verb == "archive":
        return [("archive", "muted", f"{fmt.size(outcome.bytes)} leave the disk for the archive.")]
    if verb == "restore":
        return [("check", "ok", "It is ready again once its image is proven by its digest.")]
    lines = []
    if outcome.aliases:
        names = ", ".join(outcome.aliases)
        lines.append(("warn", "warn", f"{names} {'goes' if len(outcome.aliases) == 1 else 'go'} with it: new requests for it get 404."))
    else:
        lines.append(("check", "ok", "No name leads to it."))
    if outcome.leases:
        limit = f", at most {fmt.duration(outcome.drain_eta_s)}" if outcome.drain_eta_s is not None else ""
        lines.append(("draining", "muted", f"{fmt.plural(outcome.leases, 'running request')} end first{limit}."))
    else:
        lines.append(("check", "ok", "No running request uses it."))
    return lines
