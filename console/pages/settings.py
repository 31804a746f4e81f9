"""People, warm schedules, bases and thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import theme
from console.desk import Desk
from console.visitor import Visitor
from console.widgets.base_list import BaseList
from console.widgets.elements import box, tabs
from console.widgets.gate_card import GateCard
from console.widgets.schedule_list import ScheduleList
from console.widgets.user_list import UserList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.feed import Feed
    from engine import Engine

PARTS: Final = {"users": "Users", "schedules": "Warm schedules", "bases": "Bases", "gate": "Gate"}
BUILD: Final[dict[str, Callable[[Desk], object]]] = {"users": UserList, "schedules": ScheduleList, "bases": BaseList, "gate": GateCard}


def settings_page(feed: Feed, engine: Engine, address: Mapping[str, str]) -> None:
    """One part at a time; the address says which."""
    with theme.frame("Settings", feed, Visitor(engine).caller) as shell:
        desk = Desk(engine, shell.toasts)
        with box("settings"):
            body = box("settings-body")

    def show(part: str) -> None:
        body.clear()
        with body:
            tabs(PARTS, part, choose, "Settings")
            BUILD[part](desk)

    def choose(part: str) -> None:
        ui.navigate.history.replace(f"/settings?part={part}")
        show(part)

    show(address["part"] if address.get("part") in PARTS else "users")
