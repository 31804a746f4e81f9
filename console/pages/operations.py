"""Long work: what runs, how far it is, what was rejected and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import theme
from console.import_actions import ImportActions
from console.operations_view import OperationsQuery, OperationsView
from console.visitor import Visitor
from console.widgets.elements import box
from console.widgets.operation_drawer import operation_drawer
from console.widgets.operation_table import operation_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from engine import Engine


def operations_page(feed: Feed, engine: Engine, address: Mapping[str, str]) -> None:
    """The list, and the drawer of the one that is open."""
    with theme.frame("Operations", feed, Visitor(engine).caller) as shell:
        shell.page.classes("flush")
        view = OperationsView(ImportActions(engine, shell.toasts), OperationsQuery.from_address(address), shell.page)
        with box("list"):
            operation_table(view)
        operation_drawer(view)
        shell.live.every(view.pull)
        view.load()
