"""API keys of one tenant: who may call what until when."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from nicegui import background_tasks

from console import format as fmt
from console.limits import words
from console.widgets.confirm_dialog import confirm_dialog
from console.widgets.elements import box, button, enable, icon, text
from console.widgets.key_dialog import key_dialog, key_limits_dialog, rotate_dialog

if TYPE_CHECKING:
    from console.desk import Desk
    from console.tenants_view import TenantLine
    from engine import KeyRecord


class KeyList:
    """Asked once when it is opened and after each change made here."""

    def __init__(self, line: TenantLine, desk: Desk, site: str) -> None:
        self.tenant, self.desk, self.site = line.record.id, desk, site
        why_not = desk.why_not("admin")
        with box("section"):
            with box("section-head"):
                text("Keys", "card-title")
                box("gap")
                new = button("New key…", lambda: key_dialog(self), kind="primary", glyph="plus", small=True)
                enable(new, not why_not, why_not)
            self._rows = box("key-rows")
        self._why_not = why_not
        self.refresh()

    def refresh(self) -> None:
        """Ask again."""
        background_tasks.create(self._show(), context=self._rows)

    async def _show(self) -> None:
        keys = await self.desk.ask(self.desk.engine.tenants.keys.list)
        own = sorted((key for key in keys if key.tenant == self.tenant), key=lambda key: (not key.holds(time.time()), -key.created_unix))
        self._rows.clear()
        with self._rows:
            if not own:
                text("No key yet. A program needs one to call this tenant’s adapters.", "faint", "p")
            for key in own:
                self._row(key)

    def _row(self, key: KeyRecord) -> None:
        now = time.time()
        level, state = key_state(key, now)
        with box("key-row" if key.holds(now) else "key-row ended"):
            with box("key-line"):
                text(key.name or "unnamed", "name ellipsis")
                text(key.id, "code")
                box("gap")
                icon(level, level)
                text(state)
            with box("key-facts"):
                text(key.role or "calls only", "tag").props["title"] = "What it may do besides calling models"
                text("all its models" if key.models is None else fmt.plural(len(key.models), "model")).props["title"] = ", ".join(
                    key.models or ()
                )
                text(used_words(key, now))
                text(f"by {key.created_by}")
                if key.replaces:
                    text(f"after {key.replaces}")
            limits = words(self.desk.engine.tenants.keys.limits(key.id, caller=self.desk.caller))
            if limits != "no limit":
                text(limits, "faint small", "p")
            if key.holds(now):
                self._deeds(key)

    def _deeds(self, key: KeyRecord) -> None:
        with box("key-deeds"):
            for element in (
                button("Limits…", partial(key_limits_dialog, self, key), small=True),
                button("Rotate…", partial(rotate_dialog, self, key), small=True),
                button("Revoke…", partial(self._revoke, key), kind="danger", small=True),
            ):
                enable(element, not self._why_not, self._why_not)

    def _revoke(self, key: KeyRecord) -> None:
        async def revoke(why: str) -> bool:
            done = await self.desk.do(
                "Not revoked", self.desk.engine.tenants.keys.revoke, key.id, why=why, said=f"Revoked {key.name or key.id}"
            )
            self.refresh()
            return done is not None

        effects = [
            f"Calls with it are refused from now on; until now {used_words(key, time.time())}.",
            "What it has started ends by itself.",
        ]
        confirm_dialog(f"Revoke {key.name or key.id}", effects, "Revoke key", revoke, name=key.name or key.id, note="Cannot be undone")


def used_words(key: KeyRecord, now_unix: float) -> str:
    """When it was last used."""
    return "never used" if key.used_unix is None else f"used {fmt.ago(key.used_unix, now_unix)}"


def key_state(key: KeyRecord, now_unix: float) -> tuple[str, str]:
    """(level, words)."""
    if key.revoked_unix is not None:
        return "paused", f"revoked {fmt.moment(key.revoked_unix, now_unix)}"
    if not key.holds(now_unix):
        return "paused", f"ended {fmt.moment(key.expires_unix, now_unix)}"
    if key.expires_unix is None:
        return "ok", "no end"
    return "ok", f"until {fmt.pin_end(key.expires_unix, now_unix)}"
