"""The operator's view of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import Request
from nicegui import app as console_app
from nicegui import ui

from console.feed import Feed
from console.pages.adapters import adapters_page
from console.pages.cold_warm import cold_warm_page
from console.pages.overview import overview_page
from console.pages.playground import playground_page
from console.security import ConsoleGuard, storage_secret
from console.theme import STATIC, install_assets
from engine import ColdWarm

if TYPE_CHECKING:
    from fastapi import FastAPI

    from engine import Engine

__all__ = ["build"]

SAMPLE_S: Final = 1.0
RECONNECT_S: Final = 30.0


def build(engine: Engine, app: FastAPI, cold_warm: ColdWarm | None = None) -> None:
    """Mount the console at ``/`` of ``app``, last of all, since what is mounted before keeps its paths; None makes the comparison."""
    feed = Feed(engine)
    comparison = cold_warm or ColdWarm(engine)
    console_app.on_startup(feed.sample)
    console_app.timer(SAMPLE_S, feed.sample)
    console_app.add_static_files("/static", STATIC, max_cache_age=0)
    install_assets()

    @ui.page("/", title="Overview · Loradeck")
    def overview() -> None:
        overview_page(feed, engine)

    @ui.page("/adapters", title="Adapters · Loradeck")
    def adapters(request: Request) -> None:
        adapters_page(feed, engine, request.query_params)

    @ui.page("/playground", title="Playground · Loradeck")
    def playground() -> None:
        playground_page(feed, engine)

    @ui.page("/cold-warm", title="Cold and warm · Loradeck")
    def cold_against_warm() -> None:
        cold_warm_page(feed, engine, comparison)

    ui.run_with(
        app,
        title="Loradeck",
        favicon=STATIC / "favicon.svg",
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_S,
        tailwind=False,
        storage_secret=storage_secret(engine.settings.data),
        session_middleware_kwargs={"same_site": "lax", "max_age": 43200},
        show_welcome_message=False,
    )
    app.add_middleware(ConsoleGuard)
