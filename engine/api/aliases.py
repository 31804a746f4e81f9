"""``/api/aliases``: which version each name leads to, its history, and moving it. A name may hold slashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.auth import operator_of, viewer_of
from engine.api.body import read_body
from engine.api.queries import flag, number
from engine.api.version_bodies import CanaryBody, MoveBody, WhyBody
from engine.ids import TenantId

if TYPE_CHECKING:
    from engine.alias import AliasMove, AliasRecord
    from engine.engine import Engine
    from engine.version import VersionRecord
    from engine.versions.names import MoveOutcome

Endpoint = Callable[[Request, str], Awaitable[Response]]


def aliases_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/aliases")

    @router.get("")
    async def list_aliases(request: Request) -> Response:
        query = request.query_params
        offset, limit = number(query, "offset", default=0), number(query, "limit", default=100, most=1000)
        look = partial(
            engine.versions.aliases,
            tenant=tenant_in(request),
            text=query.get("q", "").lower(),
            offset=offset,
            limit=limit,
            caller=viewer_of(request),
        )
        found, total = await anyio.to_thread.run_sync(look)
        return answer({"aliases": [alias_json(engine, alias) for alias in found], "total": total, "offset": offset, "limit": limit})

    @router.get("/{name:path}/history")
    async def alias_history(request: Request, name: str) -> Response:
        limit = number(request.query_params, "limit", default=100, most=1000)
        before = request.query_params.get("before")
        moves = await anyio.to_thread.run_sync(
            partial(
                engine.versions.names.history,
                name,
                tenant=tenant_in(request),
                limit=limit,
                before=None if before is None else number(request.query_params, "before", default=0),
                caller=viewer_of(request),
            )
        )
        return answer({"history": [_move_json(engine, move) for move in moves]})

    for verb, endpoint in (("move", _move), ("rollback", _rollback), ("canary", _canary), ("promote", _promote)):
        router.add_api_route(f"/{{name:path}}/{verb}", _bound(engine, endpoint), methods=["POST"], name=verb)
    return router


def _bound(engine: Engine, endpoint: Callable[[Engine, Request, str], Awaitable[Response]]) -> Endpoint:
    async def change(request: Request, name: str) -> Response:
        return await endpoint(engine, request, name)

    return change


async def _move(engine: Engine, request: Request, name: str) -> Response:
    caller, body = operator_of(request), await read_body(request, MoveBody)
    move = partial(engine.versions.names.move, name, str(body.version), warm=body.warm or "disk", caller=caller)
    return await _done(partial(move, **asked(request, body)))


async def _rollback(engine: Engine, request: Request, name: str) -> Response:
    rollback = partial(engine.versions.names.rollback, name, caller=operator_of(request))
    return await _done(partial(rollback, **asked(request, await why_of(request))))


async def _canary(engine: Engine, request: Request, name: str) -> Response:
    caller, body = operator_of(request), await read_body(request, CanaryBody)
    canary = partial(engine.versions.names.canary, name, str(body.version or ""), body.share, caller=caller)
    return await _done(partial(canary, **asked(request, body)))


async def _promote(engine: Engine, request: Request, name: str) -> Response:
    promote = partial(engine.versions.names.promote, name, caller=operator_of(request))
    return await _done(partial(promote, **asked(request, await why_of(request))))


async def _done(work: Callable[[], MoveOutcome]) -> Response:
    outcome = await anyio.to_thread.run_sync(work)
    bill = outcome.bill
    return answer(
        {
            "alias": outcome.alias,
            "tenant": outcome.tenant,
            "before": version_json(outcome.before),
            "after": version_json(outcome.after),
            "canary": None if outcome.canary is None else {**version_json(outcome.canary), "share": outcome.share},
            "preview": outcome.preview,
            "message": outcome.message,
            "tier": bill.tier,
            "is_there": bill.is_there,
            "arithmetic": [{"label": label, "pages": pages} for label, pages in bill.arithmetic],
            "eta_s": bill.eta_s,
            "in_flight": bill.in_flight,
        }
    )


async def why_of(request: Request) -> WhyBody:
    """The body where there is one."""
    return await read_body(request, WhyBody) if await request.body() else WhyBody(why=None)


def asked(request: Request, body: WhyBody) -> dict[str, Any]:
    """What every change takes beside the caller: whose, why, and whether it is only a preview."""
    return {
        "tenant": None if body.tenant is None else TenantId(body.tenant),
        "why": body.why or "",
        "preview": bool(flag(request.query_params, "preview")),
    }


def tenant_in(request: Request) -> TenantId | None:
    """``?tenant=``."""
    found = request.query_params.get("tenant")
    return None if found is None else TenantId(found)


def version_json(record: VersionRecord) -> dict[str, Any]:
    """Which version."""
    return {"id": record.id, "line": record.line, "number": record.number, "state": record.state}


def alias_json(engine: Engine, alias: AliasRecord) -> dict[str, Any]:
    """A name, where it leads, and its canary."""
    records = engine.host.catalog.records
    canary = None if alias.canary_version is None else records.get(alias.canary_version)
    version = records[alias.version]
    return {
        "alias": alias.name,
        "tenant": alias.tenant,
        "version": version_json(version),
        "canary": None if canary is None else {**version_json(canary), "share": alias.canary_share},
        "moved_unix": alias.moved_unix,
        "serves": version.id in engine.host.catalog.versions,
    }


def answer(value: object, *, status: int = 200) -> Response:
    """JSON."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def _move_json(engine: Engine, move: AliasMove) -> dict[str, Any]:
    records = engine.host.catalog.records
    before, after = (None if key is None else records.get(key) for key in (move.before, move.after))
    return {
        "key": move.number,
        "kind": move.kind,
        "before": None if before is None else version_json(before),
        "after": None if after is None else version_json(after),
        "share": move.share,
        "at_unix": move.at_unix,
        "by": move.by,
        "why": move.why,
    }
