"""People who sign in: role, scope, when last, and what an admin may change about them."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks

from console import format as fmt
from console.widgets.confirm_dialog import confirm_dialog
from console.widgets.elements import box, button, enable, icon, text
from console.widgets.grid import Column, Grid, act, glyph, words
from console.widgets.user_dialog import password_dialog, user_dialog

if TYPE_CHECKING:
    from console.desk import Desk
    from engine import UserRecord

COLUMNS: Final = (
    Column(key="user", label="User", width="minmax(110px,1fr)"),
    Column(key="role", label="Role", width="84px"),
    Column(key="scope", label="Scope", width="minmax(80px,140px)"),
    Column(key="state", label="State", width="96px"),
    Column(key="seen", label="Signed in", width="112px"),
    Column(key="deeds", label="", width="270px", cls="num"),
)


class UserList:
    """Asked when it is opened and after each change made here."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._why_not = desk.why_not("admin")
        self._users: dict[str, UserRecord] = {}
        with box("card table-card user-list", "section").props('aria-label="Users"'):
            with box("card-head"):
                text("Users", "card-title", "h2")
                text("who sign in to the console or the API; programs use keys, under Tenants", "sub")
                box("gap")
                add = button("Add user…", lambda: user_dialog(self), kind="primary", glyph="plus", small=True)
                enable(add, not self._why_not, self._why_not)
            if desk.caller.kind == "local":
                with box("note-line"):
                    icon("lock", "muted")
                    text("Local mode: nobody signs in. The first admin for all tenants ends it: from then on everybody needs an account.")
            self._grid = Grid(
                COLUMNS, label="Users", empty=f"{self._why_not} to see who has an account." if self._why_not else "No account yet."
            )
        self._grid.when("act", self._do)
        if not self._why_not:
            self.refresh()

    def refresh(self) -> None:
        """Ask again."""
        background_tasks.create(self._show(), context=self._grid)

    async def _show(self) -> None:
        users = await self.desk.ask(self.desk.engine.tenants.users.list)
        self._users = {user.name: user for user in sorted(users, key=lambda user: user.name)}
        now = time.time()
        self._grid.show([_row(user, now) for user in self._users.values()])

    def _do(self, payload: str) -> object:
        deed, _, name = payload.partition(" ")
        user = self._users.get(name)
        if user is None:
            return None
        if deed == "enable":
            return self._enable(user)
        {
            "role": partial(user_dialog, self, user),
            "password": partial(password_dialog, self, user),
            "disable": partial(self._disable, user),
            "delete": partial(self._delete, user),
        }[deed]()
        return None

    async def _enable(self, user: UserRecord) -> None:
        await self.desk.do("Not enabled", self.desk.engine.tenants.users.enable, user.name, said=f"Enabled {user.name}")
        self.refresh()

    def _disable(self, user: UserRecord) -> None:
        async def disable(_: str) -> bool:
            done = await self.desk.do("Not disabled", self.desk.engine.tenants.users.disable, user.name, said=f"Disabled {user.name}")
            self.refresh()
            return done is not None

        confirm_dialog(
            f"Disable {user.name}",
            ["They are signed out now and cannot sign in until enabled."],
            "Disable",
            disable,
            note="Can be enabled again",
        )

    def _delete(self, user: UserRecord) -> None:
        async def delete(_: str) -> bool:
            done = await self.desk.do("Not deleted", self.desk.engine.tenants.users.delete, user.name, said=f"Deleted {user.name}")
            self.refresh()
            return done is not None

        effects = ["They are signed out now. What they did stays in the audit log."]
        confirm_dialog(f"Delete {user.name}", effects, "Delete user", delete, name=user.name, note="Cannot be undone")


def _row(user: UserRecord, now_unix: float) -> dict[str, Any]:
    off = user.disabled_unix is not None
    turn = act("Enable", f"enable {user.name}") if off else act("Disable…", f"disable {user.name}")
    cells = [
        [words(user.name, "name")],
        [words(user.role)],
        [words(user.tenant or "all tenants", "" if user.tenant else "muted")],
        [glyph("paused" if off else "ok", "paused" if off else "ok"), words("disabled" if off else "active")],
        [words(fmt.ago(user.signed_in_unix, now_unix), "muted")],
        [act("Role…", f"role {user.name}"), act("Password…", f"password {user.name}"), turn, act("Delete…", f"delete {user.name}")],
    ]
    return {"id": user.name, "cells": cells, "still": True}
