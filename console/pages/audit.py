"""Who changed what, when, and why; and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import theme
from console.audit_view import AuditView
from console.desk import Desk
from console.visitor import Visitor
from console.widgets.audit_drawer import audit_drawer
from console.widgets.audit_table import audit_bar, audit_table
from console.widgets.elements import box

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from engine import Engine


def audit_page(feed: Feed, engine: Engine, address: Mapping[str, str]) -> None:
    """A page of lines, newest first, and the one that is open."""
    with theme.frame("Audit", feed, Visitor(engine).caller) as shell:
        shell.page.classes("flush")
        view = AuditView(Desk(engine, shell.toasts), address)
        with box("list"):
            audit_bar(view)
            audit_table(view)
        audit_drawer(view)
        view.start(shell.page)
