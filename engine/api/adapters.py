"""``/api/adapters``: list, register, look at, and move adapters. A ``ref`` is an alias or a version id, and may hold slashes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.adapter_rows import AdapterBook, AdapterQuery, row_json
from engine.api.auth import caller_of, viewer_of
from engine.api.body import read_body
from engine.api.queries import flag
from engine.api.registering import register_in_thread
from engine.api.schemas import ControlBody, RegisterBody
from engine.errors import NotReady
from engine.gateway.scope import narrow_rows
from engine.ids import TenantId

if TYPE_CHECKING:
    from engine.control import ControlOutcome
    from engine.engine import Engine

CONTROL_TIMEOUT_S = 60.0

Verb = Literal["warm", "pin", "unpin", "evict"]
VERBS: tuple[Verb, ...] = ("warm", "pin", "unpin", "evict")


def adapters_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/adapters")
    books = {True: AdapterBook(), False: AdapterBook()}

    @router.get("")
    async def list_adapters(request: Request) -> Response:
        query = AdapterQuery.read(request.query_params)
        tenant = viewer_of(request).tenant
        book = books[tenant is None]

        def find() -> tuple[list[dict[str, Any]], int]:
            rows, total = book.page(narrow_rows(engine.snapshot().adapters, tenant), query)
            return [row_json(row) for row in rows], total

        rows, total = await anyio.to_thread.run_sync(find)
        return _json({"adapters": rows, "total": total, "offset": query.offset, "limit": query.limit})

    @router.post("")
    async def register_adapter(request: Request) -> Response:
        return await _register(engine, request)

    @router.get("/{ref:path}")
    async def get_adapter(request: Request, ref: str) -> Response:
        tenant = viewer_of(request).tenant
        return _json(row_json(await anyio.to_thread.run_sync(engine.adapter, ref, tenant)))

    for verb in VERBS:
        router.add_api_route(f"/{{ref:path}}/{verb}", _control_endpoint(engine, verb), methods=["POST"], name=verb)
    return router


async def _register(engine: Engine, request: Request) -> Response:
    """201 with the version and its report, 200 when it was there already or nothing was to be changed."""
    body = await read_body(request, RegisterBody)
    registration = await register_in_thread(
        partial(
            engine.register,
            body.source,
            alias=body.alias,
            tenant=None if body.tenant is None else TenantId(body.tenant),
            dry_run=bool(body.dry_run),
            replace=bool(body.replace),
            compatible_base=bool(body.compatible_base),
            caller=caller_of(request),
        )
    )
    answer = {
        "id": registration.row.id,
        "alias": body.alias,
        "created": registration.created,
        "dry_run": registration.dry_run,
        "adapter": row_json(registration.row),
        "report": registration.report,
    }
    return _json(answer, status=201 if registration.created else 200)


def _control_endpoint(engine: Engine, verb: Verb) -> Callable[[Request, str], Awaitable[Response]]:
    async def control_adapter(request: Request, ref: str) -> Response:
        return await _control(engine, verb, request, ref)

    return control_adapter


async def _control(engine: Engine, verb: Verb, request: Request, ref: str) -> Response:
    """Runs a command and answers when it is done; with ``?preview=1`` says what it would do."""
    body = await read_body(request, ControlBody) if await request.body() else ControlBody(reason=None)
    preview = flag(request.query_params, "preview")
    command = engine.control(
        verb,
        ref,
        tier=body.tier,
        until_unix=body.until,
        reason=body.reason or "",
        preview=bool(preview),
        caller=caller_of(request),
    )
    done, _ = await asyncio.wait({asyncio.wrap_future(command)}, timeout=CONTROL_TIMEOUT_S)
    if not done:
        raise NotReady(f"'{verb}' is under way and not done after {CONTROL_TIMEOUT_S:.0f} s.", code="still_under_way")
    return _json(_outcome_json(done.pop().result()))


def _outcome_json(outcome: ControlOutcome) -> dict[str, Any]:
    return {
        "verb": outcome.verb,
        "adapter": row_json(outcome.adapter),
        "applied": outcome.applied,
        "preview": outcome.preview,
        "message": outcome.message,
        "arithmetic": [{"label": label, "pages": pages} for label, pages in outcome.arithmetic],
        "victims": outcome.victims,
        "eta_s": outcome.eta_s,
        "waiting_leases": outcome.waiting_leases,
    }


def _json(value: object, *, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
