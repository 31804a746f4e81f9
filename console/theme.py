"""The shell around every page: navigation, header, strip, banners, toasts, bottom bar."""

from __future__ import annotations

import time
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nicegui import ui

from console import format as fmt
from console.live import Live
from console.navigation import bottom_bar, mode_tag, navigation
from console.verdict import STATE_WORDS
from console.widgets.banner import local_banner, reconnect_banner
from console.widgets.elements import box, button, drawing, icon, icon_svg, say, text
from console.widgets.keys import keys_sheet
from console.widgets.strip import status_strip
from console.widgets.toast import Toasts
from console.widgets.user_menu import user_menu
from engine import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicegui.element import Element

    from console.feed import Feed
    from engine import Caller

STATIC: Final = Path(__file__).resolve().parent.parent / "static"


class Shell:
    """What a page gets from its frame: the pulse, the place for toasts, and the boxes it fills."""

    def __init__(self, live: Live, toasts: Toasts, page: Element, bar: Element | None = None) -> None:
        self.live = live
        self.toasts = toasts
        self.page = page
        self.bar = bar or page
        """A presenter's bar; elsewhere the page."""


def install_assets() -> None:
    """Put tokens, styles, icons and the keyboard into every page, once."""
    for name in ("tokens.css", "console.css", "adapters.css", "imports.css"):
        ui.add_head_html(f'<link rel="stylesheet" href="/static/{name}?v={_version(name)}">', shared=True)
    ui.add_head_html(f'<script src="/static/console.js?v={_version("console.js")}"></script>', shared=True)
    ui.add_body_html((STATIC / "icons.svg").read_text(encoding="utf-8"), shared=True)


def _version(name: str) -> str:
    return sha256((STATIC / name).read_bytes()).hexdigest()[:8]


@contextmanager
def frame(title: str, feed: Feed, caller: Caller = LOCAL) -> Iterator[Shell]:
    """Open the shell for whoever looks; what is created inside becomes the page."""
    live = Live(feed)
    with box("shell"):
        navigation(title, feed)
        with box("main"):
            _header(title, live, caller)
            if title != "Overview":
                status_strip(live)
            reconnect_banner()
            if caller.kind == "local":
                local_banner()
            with box("page", "main").props("id=page tabindex=-1") as page:
                toasts = Toasts()
                yield Shell(live, toasts, page)
        bottom_bar(title)
    keys_sheet()
    ui.skip_link("Skip to the page", target=page)
    toasts.mount()
    live.every(lambda: _mark_stale(page, feed))
    live.start()


@contextmanager
def stage(title: str, feed: Feed) -> Iterator[Shell]:
    """A presenter's frame: no navigation, a bar of the page's own, and the way back to the console."""
    live = Live(feed)
    with box("shell stage"), box("main"):
        with box("stage-bar", "header"):
            icon("brand")
            text("Loradeck", "name desk-only")
            mode_tag(feed)
            text(title, "stage-title")
            box("gap")
            bar = box("stage-tools")
            button("", kind="quiet", glyph="theme", hint="Light or dark (t)").props("data-do=theme")
            with box("btn quiet bare", "a").props('href=/ title="Back to the console" aria-label="Back to the console"'):
                icon("close")
        reconnect_banner()
        with box("page stage-page", "main").props("id=page tabindex=-1") as page:
            toasts = Toasts()
            yield Shell(live, toasts, page, bar)
    keys_sheet()
    ui.skip_link("Skip to the page", target=page)
    toasts.mount()
    live.every(lambda: _mark_stale(page, feed))
    live.start()


def _mark_stale(page: Element, feed: Feed) -> None:
    page.classes(add="stale" if feed.is_stale else "", remove="" if feed.is_stale else "stale")


def _header(title: str, live: Live, caller: Caller) -> None:
    with box("top", "header"):
        icon("brand").classes("phone-only")
        text(title, "title", "h1")
        _engine_state(live)
        box("gap")
        text("", "clock").props(f"id=clock data-offset={time.localtime().tm_gmtoff} data-zone={fmt.utc_offset(time.time())}")
        _pause(live)
        button("", kind="plain", glyph="theme", hint="Light or dark (t)").props("data-do=theme")
        with button("", hint="Keys (?)").props("data-do=keys").classes("desk-only"):
            text("?")
        user_menu(caller)


def _engine_state(live: Live) -> None:
    with box("state") as state:
        glyph = drawing("", "ico", "span")
        word = text("", "name")
        since = text("", "since")

    def update() -> None:
        snapshot = live.feed.snapshot
        level, label = STATE_WORDS[snapshot.state] if snapshot.taken_unix else ("unknown", "Unknown")
        if live.feed.is_stale:
            level = "unknown"
        glyph.content = icon_svg(level, level)
        say(word, label)
        age = f"numbers {fmt.duration(live.feed.age_s)} old" if live.feed.is_stale else _since(snapshot.state_since_unix)
        say(since, age)

    state.props["role"] = "status"
    live.every(update)


def _since(unix: float) -> str:
    return fmt.duration(time.time() - unix) if unix else ""


def _pause(live: Live) -> None:
    control = button("Live", kind="plain", glyph="pause", hint="stop the numbers from moving")
    control.classes("live")

    def toggle() -> None:
        live.paused = not live.paused
        control.classes(add="paused" if live.paused else "", remove="" if live.paused else "paused")
        control.props["aria-pressed"] = "true" if live.paused else "false"
        if not live.paused:
            live.refresh()

    control.on("click", toggle, args=[])
