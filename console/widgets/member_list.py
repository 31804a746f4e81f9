"""The people of one tenant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nicegui import background_tasks

from console import format as fmt
from console.widgets.elements import box, icon, text

if TYPE_CHECKING:
    from console.desk import Desk
    from console.tenants_view import TenantLine


class MemberList:
    """Who is confined to it; changed on the page Settings."""

    def __init__(self, line: TenantLine, desk: Desk) -> None:
        self._tenant, self._desk = line.record.id, desk
        with box("section"):
            with box("section-head"):
                text("Members", "card-title")
                box("gap")
                with box("link-like", "a").props("href=/settings"):
                    text("Settings")
            self._rows = box("key-rows")
        background_tasks.create(self._show(), context=self._rows)

    async def _show(self) -> None:
        why_not = self._desk.why_not("admin")
        users = [] if why_not else await self._desk.ask(self._desk.engine.tenants.users.list)
        own = [user for user in users if user.tenant == self._tenant]
        self._rows.clear()
        with self._rows:
            if why_not:
                text(f"{why_not} to see who they are.", "faint", "p")
            elif not own:
                text("Nobody is confined to this tenant. People for all tenants see it too.", "faint", "p")
            for user in own:
                with box("key-row"), box("key-line"):
                    icon("paused" if user.disabled_unix else "ok", "paused" if user.disabled_unix else "ok")
                    text(user.name, "name ellipsis")
                    text(user.role, "tag")
                    box("gap")
                    seen = user.signed_in_unix
                    text("never signed in" if seen is None else f"signed in {fmt.ago(seen, time.time())}", "faint")
