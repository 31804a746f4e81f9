"""``GET /metrics`` and ``GET /health``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from engine.telemetry.prometheus import EngineCollector

if TYPE_CHECKING:
    from engine.engine import Engine


def operations_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(EngineCollector(engine.publisher, max_adapters=engine.settings.max_step_adapters))
        return Response(await anyio.to_thread.run_sync(encode, registry), headers={"content-type": content_type})

    @router.get("/health")
    async def health() -> Response:
        report = engine.health()
        return Response(orjson.dumps(report), 200 if report.ok else 503, media_type="application/json")

    return router
