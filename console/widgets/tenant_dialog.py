"""A new tenant: its id and the name that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from console.widgets.elements import box, button, text
from console.widgets.form import Form

if TYPE_CHECKING:
    from console.tenants_view import TenantsView


def tenant_dialog(view: TenantsView) -> None:
    """Open the form; it is gone once closed."""
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog").props('role=dialog aria-label="Add a tenant"'):
        text("Add a tenant", "dialog-title", "h2")
        form = Form()
        with box("form"):
            name = form.line("tenant", "Id", "acme", "Small letters, digits, '.', '_' and '-'. It cannot be changed")
            label = form.line("name", "Name", "Acme Ltd", "What people read; empty is the id")

        async def add() -> None:
            made = await form.send(
                view.desk, view.desk.engine.tenants.create, str(name.value or "").strip(), name=str(label.value or "").strip()
            )
            if made:
                dialog.close()
                view.desk.toasts.show(f"Added {made[0].id}")
                view.change(open=made[0].id, part="limits")

        with box("dialog-foot"):
            text("It may have everything until you set limits.", "hint")
            button("Cancel", dialog.close, kind="quiet")
            button("Add tenant", add, kind="primary")
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()
