"""``/api/keys``: made, rotated, revoked, limited. The secret is in the answer to its making and nowhere else."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.account_bodies import KeyBody, LimitsBody, RevokeBody, RotateBody
from engine.api.accounts import in_thread, json_response
from engine.api.auth import caller_of
from engine.api.body import read_body
from engine.ids import TenantId

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.tenants.keys import ShownKey


def keys_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/keys")

    @router.get("")
    async def list_keys(request: Request) -> Response:
        return json_response(
            {"keys": [{**asdict(key), "prefix": f"sk-{key.id}"} for key in engine.tenants.keys.list(caller=caller_of(request))]}
        )

    @router.post("")
    async def create_key(request: Request) -> Response:
        body, caller = await read_body(request, KeyBody), caller_of(request)
        tenant = None if body.all_tenants else caller.home if body.tenant is None else TenantId(body.tenant)
        models = None if body.models is None else tuple(body.models)
        make = partial(
            engine.tenants.keys.create,
            body.name,
            tenant=tenant,
            role=body.role,
            models=models,
            expires_unix=body.expires_unix,
            caller=caller,
        )
        return json_response(_shown(await in_thread(make)), status=201)

    @router.post("/{key}/rotate")
    async def rotate_key(request: Request, key: str) -> Response:
        body = await read_body(request, RotateBody) if await request.body() else RotateBody()
        rotate = partial(engine.tenants.keys.rotate, key, overlap_s=body.overlap_s, caller=caller_of(request))
        return json_response(_shown(await in_thread(rotate)), status=201)

    @router.post("/{key}/revoke")
    async def revoke_key(request: Request, key: str) -> Response:
        body = await read_body(request, RevokeBody) if await request.body() else RevokeBody()
        return json_response(await in_thread(partial(engine.tenants.keys.revoke, key, why=body.why, caller=caller_of(request))))

    _add_limits(engine, router)
    return router


def _add_limits(engine: Engine, router: APIRouter) -> None:
    @router.get("/{key}/limits")
    async def get_limits(request: Request, key: str) -> Response:
        return json_response(engine.tenants.keys.limits(key, caller=caller_of(request)))

    @router.put("/{key}/limits")
    async def set_limits(request: Request, key: str) -> Response:
        body = await read_body(request, LimitsBody)
        change = partial(engine.tenants.keys.set_limits, key, body.allowance(), why=body.why, caller=caller_of(request))
        return json_response(await in_thread(change))


def _shown(made: ShownKey) -> dict[str, Any]:
    return {**asdict(made.record), "prefix": f"sk-{made.record.id}", "key": made.token}
