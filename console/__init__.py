"""The operator's view of the engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from nicegui import app as console_app
from nicegui import ui
from nicegui.staticfiles import CacheControlledStaticFiles

from console.feed import Feed, Feeds
from console.login import add_login
from console.pages.adapters import adapters_page
from console.pages.audit import audit_page
from console.pages.cold_warm import cold_warm_page
from console.pages.operations import operations_page
from console.pages.overview import overview_page
from console.pages.playground import playground_page
from console.pages.settings import settings_page
from console.pages.tenants import tenants_page
from console.security import ConsoleGuard, storage_secret
from console.theme import STATIC, install_assets
from console.visitor import Visitor, close_pages_of
from engine import ColdWarm

if TYPE_CHECKING:
    from fastapi import FastAPI

    from engine import Engine

__all__ = ["build"]

SAMPLE_S: Final = 1.0
RECONNECT_S: Final = 30.0


def build(engine: Engine, app: FastAPI, cold_warm: ColdWarm | None = None) -> None:
    """Mount the console at ``/`` of ``app``, last of all, since what is mounted before keeps its paths; None makes the comparison."""
    feeds = Feeds(engine)
    comparison = cold_warm or ColdWarm(engine)
    console_app.on_startup(feeds.sample)
    console_app.timer(SAMPLE_S, feeds.sample)
    console_app.timer(SAMPLE_S, engine.tenants.sessions.end_old)
    _add_files(app)
    install_assets()

    _add_pages(engine, feeds, comparison)
    _add_control_pages(engine, feeds)
    add_login(engine, app)
    console_app.on_startup(lambda: _follow_sessions(engine))

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
    app.add_middleware(ConsoleGuard, engine=engine)


def _add_files(app: FastAPI) -> None:
    """What the sign-in form needs too, beside the console's own application: that keeps a store for every visitor it answers."""
    app.mount("/static", CacheControlledStaticFiles(directory=STATIC, max_cache_age=0))

    @app.get("/favicon.ico", include_in_schema=False)
    async def favicon() -> Response:
        return FileResponse(STATIC / "favicon.svg", media_type="image/svg+xml")


def _add_pages(engine: Engine, feeds: Feeds, comparison: ColdWarm) -> None:
    def seen() -> Feed:
        return feeds.of(Visitor(engine).caller.tenant)

    @ui.page("/", title="Overview · Loradeck")
    def overview() -> None:
        overview_page(seen(), engine)

    @ui.page("/adapters", title="Adapters · Loradeck")
    def adapters(request: Request) -> None:
        adapters_page(seen(), engine, request.query_params)

    @ui.page("/playground", title="Playground · Loradeck")
    def playground() -> None:
        playground_page(seen(), engine)

    @ui.page("/cold-warm", title="Cold and warm · Loradeck")
    def cold_against_warm() -> Response | None:
        if Visitor(engine).caller.tenant is not None:
            return RedirectResponse("/")  # what is compared may be another tenant's
        cold_warm_page(seen(), engine, comparison)
        return None


def _add_control_pages(engine: Engine, feeds: Feeds) -> None:
    def seen() -> Feed:
        return feeds.of(Visitor(engine).caller.tenant)

    @ui.page("/tenants", title="Tenants · Loradeck")
    def tenants(request: Request) -> None:
        tenants_page(seen(), engine, request.query_params, str(request.base_url).rstrip("/"))

    @ui.page("/audit", title="Audit · Loradeck")
    def audit(request: Request) -> None:
        audit_page(seen(), engine, request.query_params)

    @ui.page("/settings", title="Settings · Loradeck")
    def settings(request: Request) -> None:
        settings_page(seen(), engine, request.query_params)

    @ui.page("/operations", title="Operations · Loradeck")
    def operations(request: Request) -> None:
        operations_page(seen(), engine, request.query_params)


def _follow_sessions(engine: Engine) -> None:
    """Whoever signs out, or loses an account, loses the open pages too."""
    loop = asyncio.get_running_loop()
    engine.tenants.sessions.on_end.append(lambda session: close_pages_of(session, loop))
