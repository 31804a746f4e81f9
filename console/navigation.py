"""The way between pages: at the left, on a phone at the bottom."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console.widgets.elements import box, icon, text

if TYPE_CHECKING:
    from nicegui.element import Element

    from console.feed import Feed


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A page. ``key`` opens it after ``g``; ``on_phone`` keeps it at the bottom of a phone, the rest is under More."""

    name: str
    path: str
    glyph: str
    key: str
    on_phone: bool = False


GROUPS: Final = (
    (
        Destination(name="Overview", path="/", glyph="overview", key="o", on_phone=True),
        Destination(name="Adapters", path="/adapters", glyph="adapters", key="a", on_phone=True),
        Destination(name="Tenants", path="/tenants", glyph="tenants", key="n", on_phone=True),
    ),
    (
        Destination(name="Playground", path="/playground", glyph="playground", key="p", on_phone=True),
        Destination(name="Cold and warm", path="/cold-warm", glyph="stopwatch", key="c"),
    ),
    (
        Destination(name="Operations", path="/operations", glyph="operations", key="r"),
        Destination(name="Audit", path="/audit", glyph="audit", key="u"),
        Destination(name="Settings", path="/settings", glyph="settings", key="s"),
    ),
)
PAGES: Final = tuple(page for group in GROUPS for page in group)


def navigation(title: str, feed: Feed) -> None:
    """Brand, instance, the pages in their groups, and what serves."""
    with box("nav", "nav").props('aria-label="Pages"'):
        with box("brand"):
            icon("brand")
            text("Loradeck")
        with box("instance"):
            text(socket.gethostname(), "name")
            mode_tag(feed)
        for number, group in enumerate(GROUPS):
            if number:
                box("rule", "hr")
            for page in group:
                _link(page, title).props["title"] = f"{page.name} (g {page.key})"
        device = feed.snapshot.device
        with box("foot"):
            text(device.base or "No base yet")
            text(device.name or device.kind.upper())


def mode_tag(feed: Feed) -> None:
    """LOCAL while only this machine can connect."""
    if feed.settings.is_loopback:
        text("LOCAL", "tag outlined").props('title="Only this machine can connect; whoever opens the console is admin"')


def bottom_bar(title: str) -> None:
    """A phone's pages, and a sheet with the others."""
    others = [page for page in PAGES if not page.on_phone]
    with box("bottom", "nav").props('aria-label="Pages"'):
        for page in PAGES:
            if page.on_phone:
                _link(page, title)
        with box("item on" if title in {page.name for page in others} else "item", "button").props("type=button popovertarget=more-pages"):
            icon("more")
            text("More")
    with box("sheet", "nav").props('id=more-pages popover=auto aria-label="More pages"'):
        for page in others:
            _link(page, title)


def _link(page: Destination, title: str) -> Element:
    with box("item on" if page.name == title else "item", "a").props(f"href={page.path}") as link:
        if page.name == title:
            link.props["aria-current"] = "page"
        icon(page.glyph)
        text(page.name)
    return link
