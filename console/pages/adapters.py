"""Which adapters are where, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import theme
from console.actions import Actions
from console.adapter_view import AdapterView
from console.import_actions import ImportActions
from console.query import AdapterQuery
from console.version_actions import VersionActions
from console.visitor import Visitor
from console.widgets.adapter_drawer import adapter_drawer
from console.widgets.adapter_table import adapter_table
from console.widgets.elements import box
from console.widgets.view_bar import filter_bar, view_bar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from engine import Engine


def adapters_page(feed: Feed, engine: Engine, address: Mapping[str, str]) -> None:
    """The list, and the drawer of the one that is open."""
    with theme.frame("Adapters", feed, Visitor(engine).caller) as shell:
        shell.page.classes("flush")
        actions = Actions(engine, shell.toasts, feed)
        versions = VersionActions(engine, shell.toasts, feed)
        view = AdapterView(feed, AdapterQuery.from_address(address), versions, shell.page)
        with box("list"):
            view_bar(view, actions, ImportActions(engine, shell.toasts))
            filter_bar(view)
            adapter_table(view, actions)
        adapter_drawer(view, actions)
        shell.live.every(view.refresh)
        view.load_stored()
