"""Add a user, change rights, set a password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console.widgets.elements import box, button, choice, text
from console.widgets.form import Form
from console.widgets.key_dialog import role_of
from engine import TenantId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.widgets.user_list import UserList
    from engine import UserRecord

ROLES: Final = {"viewer": "viewer: looks", "operator": "operator: moves adapters and aliases", "admin": "admin: everything"}


def user_dialog(users: UserList, user: UserRecord | None = None) -> None:
    """A new account, or other rights for one."""
    desk, form = users.desk, Form()
    title = f"Rights of {user.name}" if user else "Add a user"
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog").props("role=dialog") as frame:
        frame.props["aria-label"] = title
        text(title, "dialog-title", "h2")
        with box("form"):
            name = None if user else form.line("name", "Name", "j.okafor", "What they sign in with and what the audit log says")
            password = None if user else form.line("password", "Password", hint="They can change it; it is stored as a hash", secret=True)
            text("Role", "label")
            with box("form-field"):
                role = choice("Role", ROLES, user.role if user else "viewer")
                form.under("role")
            text("Scope", "label")
            with box("form-field"):
                scope = choice("Scope", _scopes(users), (user.tenant or "") if user else (desk.caller.tenant or ""))
                form.under("tenant")
        form.foot()

        async def save() -> None:
            rights = {
                "role": role_of(str(role.props["value"])),
                "tenant": TenantId(str(scope.props["value"])) if scope.props["value"] else None,
            }
            service = desk.engine.tenants.users
            if user is not None:
                done = await form.send(desk, service.set_role, user.name, **rights)
            else:
                assert name is not None
                assert password is not None
                done = await form.send(desk, service.add, str(name.value or "").strip(), str(password.value or ""), **rights)
            if done:
                dialog.close()
                desk.toasts.show(f"{'Changed' if user else 'Added'} {done[0].name}")
                users.refresh()

        hint = "They sign in again with the new rights." if user else ""
        dialog_foot(dialog, hint, "Set rights" if user else "Add user", save)


def password_dialog(users: UserList, user: UserRecord) -> None:
    """A new password; whoever is signed in with the old one is signed out."""
    form = Form()
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog").props("role=dialog") as frame:
        frame.props["aria-label"] = title = f"Password of {user.name}"
        text(title, "dialog-title", "h2")
        with box("form"):
            password = form.line("password", "New", hint="Stored as a hash", secret=True)

        async def save() -> None:
            if await form.send(users.desk, users.desk.engine.tenants.users.reset, user.name, str(password.value or "")):
                dialog.close()
                users.desk.toasts.show(f"Set the password of {user.name}")

        dialog_foot(dialog, "They are signed out now.", "Set password", save)


def _scopes(users: UserList) -> dict[str, str]:
    """What an admin may hand out: all tenants only when it has all itself."""
    caller = users.desk.caller
    own = {str(each.id): str(each.id) for each in users.desk.engine.tenants.visible(caller=caller)}
    return own if caller.tenant is not None else {"": "all tenants", **own}


def dialog_foot(dialog: ui.dialog, hint: str, label: str, act: Callable[[], Awaitable[None]]) -> None:
    """Cancel and the one thing that the dialog is for; it is gone once closed. Opens it."""
    with box("dialog-foot"):
        text(hint, "hint")
        button("Cancel", dialog.close, kind="quiet")
        button(label, act, kind="primary")
    dialog.on("hide", dialog.delete, args=[])
    dialog.open()
