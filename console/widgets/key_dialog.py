"""Make, rotate and limit an API key. The secret is shown once, here, and kept nowhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, choice, segments, text
from console.widgets.form import Form
from console.widgets.limits_card import LimitFields
from console.widgets.secret import secret_card
from engine import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.widgets.key_list import KeyList
    from engine import KeyRecord, Role, ShownKey

ROLES: Final = {
    "": "calls models only",
    "viewer": "viewer: also looks",
    "operator": "operator: also moves adapters",
    "admin": "admin: everything of the tenant",
}
ENDS: Final = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year", "": "no end"}
OVERLAPS: Final = {"0": "at once", "3600": "1 h", "86400": "1 day", "604800": "7 days"}
DAY_S: Final = 86400.0


class KeyDialog:
    """A dialog that ends with a secret: from then on only copying and closing are left."""

    def __init__(self, keys: KeyList, title: str) -> None:
        self.keys = keys
        with ui.dialog().props("transition-duration=0 persistent") as self.dialog, box("dialog").props("role=dialog") as self.frame:
            self.frame.props["aria-label"] = title
            text(title, "dialog-title", "h2")
            self.body = box("dialog-body")
        self.dialog.on("hide", self.dialog.delete, args=[])
        self.dialog.open()

    def show(self, made: ShownKey) -> None:
        """The secret, once."""
        self.body.clear()
        with self.body:
            secret_card(made, self.keys.site)
            with box("dialog-foot"):
                text("It is not shown again.", "hint")
                button("Done", self.dialog.close, kind="primary")
        self.keys.refresh()

    def foot(self, hint: str, label: str, act: Callable[[], object]) -> None:
        """Cancel and the one thing that it is for."""
        with box("dialog-foot"):
            text(hint, "hint")
            button("Cancel", self.dialog.close, kind="quiet")
            button(label, act, kind="primary")  # type: ignore[arg-type]


def key_dialog(keys: KeyList) -> None:
    """A new key of the tenant."""
    shell, form, end = KeyDialog(keys, f"New key for {keys.tenant}"), Form(), ["90"]
    with shell.body:
        with box("form"):
            name = form.line("name", "Name", "billing-service", "Who or what will use it")
            text("May", "label")
            with box("form-field"):
                role = choice("May", ROLES, "")
                form.under("role")
            models = form.line("models", "Models", "all of this tenant", "Names it may call, with commas; empty is all that the tenant may")
            text("Ends", "label")
            with box("form-field"):
                segments(ENDS, end[0], lambda days: end.__setitem__(0, days), "Ends")
                form.under("expires_unix")
        with box("more", "details"):
            text("Limits of this key", "", "summary")
            fields = LimitFields(UNLIMITED, with_weight=False, on_change=lambda: None, label="Key ")
        form.foot()

        async def make() -> None:
            service, limits = keys.desk.engine.tenants.keys, fields.read()
            if limits is None:
                return
            made = await form.send(
                keys.desk,
                service.create,
                str(name.value or "").strip(),
                tenant=keys.tenant,
                role=role_of(str(role.props["value"])),
                models=names_in(str(models.value or "")),
                expires_unix=time.time() + float(end[0]) * DAY_S if end[0] else None,
            )
            if made is None:
                return
            if limits != UNLIMITED:
                await keys.desk.do("Made without its limits", service.set_limits, made[0].record.id, limits)
            shell.show(made[0])

        shell.foot("The secret is shown once.", "Make key", make)


def rotate_dialog(keys: KeyList, key: KeyRecord) -> None:
    """A successor; both hold during the overlap."""
    shell, form, overlap = KeyDialog(keys, f"Rotate {key.name or key.id}"), Form(), ["86400"]
    with shell.body:
        text(
            "A new secret with the same rights and limits. The old one holds on for the overlap, so that programs can change over.",
            "muted",
            "p",
        )
        with box("form"):
            text("Old ends", "label")
            with box("form-field"):
                segments(OVERLAPS, overlap[0], lambda seconds: overlap.__setitem__(0, seconds), "Old ends")
                form.under("overlap_s")

        async def rotate() -> None:
            made = await form.send(keys.desk, keys.desk.engine.tenants.keys.rotate, key.id, overlap_s=float(overlap[0]))
            if made:
                shell.show(made[0])

        shell.foot("The secret is shown once.", "Rotate key", rotate)


def key_limits_dialog(keys: KeyList, key: KeyRecord) -> None:
    """Limits of one key; those of its tenant hold as well."""
    service = keys.desk.engine.tenants.keys
    shell = KeyDialog(keys, f"Limits of {key.name or key.id}")
    with shell.body:
        fields = LimitFields(service.limits(key.id, caller=keys.desk.caller), with_weight=False, on_change=lambda: None, label="Key ")

        async def save() -> None:
            wanted = fields.read()
            if wanted is not None and await fields.form.send(keys.desk, service.set_limits, key.id, wanted):
                shell.dialog.close()
                keys.desk.toasts.show(f"Limits of {key.name or key.id} set")
                keys.refresh()

        shell.foot("The tenant’s limits hold as well.", "Set limits", save)


def role_of(chosen: str) -> Role | None:
    """What was picked; empty is no role."""
    roles: dict[str, Role] = {"viewer": "viewer", "operator": "operator", "admin": "admin"}
    return roles.get(chosen)


def names_in(typed: str) -> tuple[str, ...] | None:
    """Names with commas between them; None where there is none."""
    return tuple(part.strip() for part in typed.split(",") if part.strip()) or None
