"""``/api/snapshot``, ``/api/fairness``, ``/api/events`` and ``/api/steps``: what is, what happened, what was computed together."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.auth import caller_of, viewer_of
from engine.api.long_answer import long_answer, snapshot_json
from engine.api.queries import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.engine import Engine

MOST_EVENTS = 1000
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def snapshot_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.get("/snapshot")
    async def snapshot(request: Request) -> Response:
        tenant = viewer_of(request).tenant

        def parts() -> Iterator[bytes]:
            yield from snapshot_json(engine.snapshot(tenant))

        return long_answer(parts())

    @router.get("/fairness")
    async def fairness(request: Request) -> Response:
        return _json(engine.snapshot(viewer_of(request).tenant).fairness)

    @router.get("/events")
    async def events(request: Request) -> Response:
        after = number(request.query_params, "after", default=0)
        limit = number(request.query_params, "limit", default=500, most=MOST_EVENTS)
        page = engine.events(after, limit, tenant=viewer_of(request).tenant)
        rows = [{"number": place, "type": event_name(type(event).__name__), **asdict(event)} for place, event in page.events]
        return _json({"events": rows, "lost": page.lost, "newest": page.newest})

    @router.get("/steps")
    async def steps(request: Request) -> Response:
        caller_of(request).need("viewer", everywhere=True)
        return _json({"steps": engine.steps(number(request.query_params, "after", default=0))})

    return router


@cache
def event_name(kind: str) -> str:
    """``AdapterEvicted`` → ``adapter_evicted``."""
    return CAPITAL.sub("_", kind).lower()


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
