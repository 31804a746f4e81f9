"""Who looks at this page, with what rights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.widgets.elements import box, icon, text

if TYPE_CHECKING:
    from engine import Caller

MAY = {
    "viewer": "May look, and change nothing.",
    "operator": "May register, pin, warm, evict and move aliases.",
    "admin": "May do everything, tenants, keys and limits included.",
}


def user_menu(caller: Caller) -> None:
    """A round button with initials; the sheet under it names role and scope."""
    with box("btn plain bare user", "button") as opener:
        opener.props("type=button popovertarget=user-menu")
        opener.props["title"] = opener.props["aria-label"] = f"Signed in as {caller.name}" if caller.kind == "user" else "Local mode"
        text(initials(caller.name))
    with box("menu").props("id=user-menu popover=auto"):
        with box("menu-head"):
            text(caller.name, "name")
            text(caller.role or "no role", "tag")
        text(MAY.get(caller.role or "", "May see nothing here."), "muted", "p")
        with box("menu-line"):
            text("Scope", "label")
            text("all tenants" if caller.tenant is None else caller.tenant)
        if caller.kind == "user":
            with box("menu-line", "form").props("method=post action=/logout"), box("btn plain", "button").props("type=submit"):
                icon("leave")
                text("Sign out")
        if caller.kind == "local":
            with box("menu-line"):
                icon("lock")
                text("Local mode: no account, nothing to sign out of.", "muted")


def initials(name: str) -> str:
    """Two letters at most: of "j.okafor" JO, of "local" LO."""
    parts = [part for part in re.split(r"[\W_]+", name) if part]
    letters = parts[0][0] + parts[-1][0] if len(parts) > 1 else name[:2]
    return letters.upper()
