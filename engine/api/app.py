"""The HTTP application: ``/health`` and ``/metrics`` outside, ``/v1`` and ``/api`` as applications of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from fastapi import APIRouter, FastAPI

from engine.api.accounts import session_router, tenants_router, usage_router, users_router
from engine.api.adapters import adapters_router
from engine.api.aliases import aliases_router
from engine.api.audit import audit_router
from engine.api.auth import Door, Guard
from engine.api.bases import bases_router
from engine.api.body import BodyLimit
from engine.api.chat import chat_router
from engine.api.completions import completions_router
from engine.api.imports import imports_router
from engine.api.keys import keys_router
from engine.api.lora import lora_router
from engine.api.metrics import operations_router
from engine.api.models import models_router
from engine.api.own_paths import OwnPaths
from engine.api.refusals import install_handlers
from engine.api.schedules import gate_router, schedules_router
from engine.api.snapshot import snapshot_router
from engine.api.trace import TraceRequests
from engine.api.versions import versions_router

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from engine.engine import Engine


def build_app(engine: Engine) -> FastAPI:
    """The outer application, to mount a console on at ``/``. Its lifespan starts the engine unless it runs, and stops it."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if engine.health().state == "starting":
            await anyio.to_thread.run_sync(engine.start)
        yield
        await anyio.to_thread.run_sync(engine.stop)

    app = FastAPI(title="Loradeck", lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.include_router(operations_router(engine))
    app.mount("/v1", _mounted(engine, "v1", chat_router(engine), completions_router(engine), models_router(engine), lora_router(engine)))
    app.mount("/api", _mounted(engine, "api", *_api_routers(engine)))
    install_handlers(app)
    app.add_middleware(OwnPaths)
    app.add_middleware(Guard, engine=engine, door="outer")
    return app


def _api_routers(engine: Engine) -> tuple[APIRouter, ...]:
    """Everything below ``/api``."""
    accounts = (session_router(engine), tenants_router(engine), users_router(engine), keys_router(engine), usage_router(engine))
    names = (versions_router(engine), aliases_router(engine), schedules_router(engine), gate_router(engine), bases_router(engine))
    return (snapshot_router(engine), *names, adapters_router(engine), imports_router(engine), audit_router(engine), *accounts)


def _mounted(engine: Engine, door: Door, *routers: APIRouter) -> ASGIApp:
    """Routers as an application whose every error is JSON, guarded, with capped bodies, an id and a log line a request."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    for router in routers:
        app.include_router(router)
    install_handlers(app)
    return TraceRequests(Guard(BodyLimit(app, max_bytes=engine.settings.max_body, unless={"/uploads"}), engine, door))
