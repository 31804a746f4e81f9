"""Who uses how much of what they may, who waits for whom, and who holds which key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import theme
from console.desk import Desk
from console.tenants_view import TenantsView
from console.visitor import Visitor
from console.widgets.elements import box
from console.widgets.fairness_card import fairness_card
from console.widgets.tenant_drawer import tenant_drawer
from console.widgets.tenant_list import tenant_bar, tenant_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from engine import Engine


def tenants_page(feed: Feed, engine: Engine, address: Mapping[str, str], site: str) -> None:
    """The list, who displaced whom, and the drawer of the tenant that is open. ``site`` is how this visitor reaches the server."""
    with theme.frame("Tenants", feed, Visitor(engine).caller) as shell:
        shell.page.classes("flush")
        view = TenantsView(feed, Desk(engine, shell.toasts), address)
        with box("list"):
            tenant_bar(view)
            tenant_list(view)
            fairness_card(shell.live)
        tenant_drawer(view, site)
        shell.live.every(view.tell)
