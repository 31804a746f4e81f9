"""``/api/bases``: bases seen here, what another would stop, and the operation that registers again what was for another."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.aliases import answer, tenant_in, version_json
from engine.api.auth import operator_of, viewer_of
from engine.api.body import read_body
from engine.api.imports import begin_import
from engine.api.version_bodies import ReregisterBody
from engine.intake.importing import Import

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.versions.bases import Fate


def bases_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/bases")

    @router.get("")
    async def list_bases(request: Request) -> Response:
        caller, bases = viewer_of(request), engine.versions.bases
        rows = await anyio.to_thread.run_sync(partial(bases.every, tenant=tenant_in(request), caller=caller))
        stranded = [_fate_json(fate) for fate in bases.stranded(caller=caller)]
        listed = [{**asdict(row), "serves": row.digest == bases.served} for row in rows]
        return answer({"bases": listed, "stranded": stranded})

    @router.get("/preview")
    async def preview(request: Request) -> Response:
        look = partial(engine.versions.bases.preview, request.query_params.get("source", ""), caller=operator_of(request))
        found = await anyio.to_thread.run_sync(look)
        stops = [_fate_json(fate) for fate in found.stops]
        return answer({"digest": found.digest, "name": found.name, "is_served": found.is_served, "stops": stops})

    @router.post("/reregister")
    async def reregister(request: Request) -> Response:
        caller = operator_of(request)
        body = await read_body(request, ReregisterBody) if await request.body() else ReregisterBody()
        ask = Import(kind="base", source=body.source or "", tenant=body.tenant or "", compatible_base=body.compatible_base)
        return await begin_import(engine, ask, dry_run=body.dry_run, offset=body.offset, limit=body.limit, caller=caller)

    return router


def _fate_json(fate: Fate) -> dict[str, Any]:
    return {
        "alias": fate.alias,
        "tenant": fate.tenant,
        "version": version_json(fate.version),
        "base_digest": fate.version.base_digest,
        "source": fate.version.source,
        "fits": fate.fits,
        "reason": fate.reason,
    }
