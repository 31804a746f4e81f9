"""``/api/session``, ``/api/tenants``, ``/api/users``, ``/api/usage``: who may use Loradeck, and what they used."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.account_bodies import LimitsBody, SignInBody, TenantBody, TenantChangeBody, UserBody, UserChangeBody
from engine.api.auth import caller_of, viewer_of
from engine.api.body import read_body
from engine.errors import InvalidRequest
from engine.gateway.keys import bearer
from engine.gateway.passwords import check_password
from engine.gateway.sessions import SESSION_S
from engine.ids import TenantId

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.accounts import TenantRecord
    from engine.engine import Engine

T = TypeVar("T")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def session_router(engine: Engine) -> APIRouter:
    """Sign in for a token that ``/api`` takes, see who one is, sign out."""
    router = APIRouter(prefix="/session")

    @router.post("")
    async def sign_in(request: Request) -> Response:
        body = await read_body(request, SignInBody)
        token = await in_thread(partial(engine.tenants.access.sign_in, body.name, body.password, "api"))
        return json_response({"token": token, "expires_in_s": SESSION_S}, status=201)

    @router.get("")
    async def who(request: Request) -> Response:
        caller = viewer_of(request)
        return json_response({"name": caller.name, "kind": caller.kind, "role": caller.role, "tenant": caller.tenant})

    @router.delete("")
    async def sign_out(request: Request) -> Response:
        engine.tenants.access.sign_out(bearer(request.headers.get("authorization")) or "")
        return Response(status_code=204)

    return router


def tenants_router(engine: Engine) -> APIRouter:
    """Tenants and their limits."""
    router = APIRouter(prefix="/tenants")

    @router.get("")
    async def list_tenants(request: Request) -> Response:
        found = await in_thread(partial(engine.tenants.visible, caller=caller_of(request)))
        return json_response({"tenants": [{**_tenant(each), "limits": engine.tenants.directory.limits_of(each.id)} for each in found]})

    @router.post("")
    async def create_tenant(request: Request) -> Response:
        body = await read_body(request, TenantBody)
        made = await in_thread(partial(engine.tenants.create, body.id, name=body.name, caller=caller_of(request)))
        return json_response(_tenant(made), status=201)

    @router.patch("/{tenant}")
    async def change_tenant(request: Request, tenant: str) -> Response:
        body, caller = await read_body(request, TenantChangeBody), caller_of(request)
        if body.name is not None:
            await in_thread(partial(engine.tenants.rename, tenant, body.name, caller=caller))
        if body.suspended is not None:
            act = partial(engine.tenants.suspend, caller=caller) if body.suspended else partial(engine.tenants.resume, caller=caller)
            await in_thread(partial(act, tenant, why=body.why))
        caller.need("admin", everywhere=True)
        return json_response(_tenant(engine.tenants.directory.tenant(tenant, caller)))

    @router.delete("/{tenant}")
    async def delete_tenant(request: Request, tenant: str) -> Response:
        await in_thread(partial(engine.tenants.delete, tenant, caller=caller_of(request)))
        return Response(status_code=204)

    _add_limits(engine, router)
    return router


def _add_limits(engine: Engine, router: APIRouter) -> None:
    @router.get("/{tenant}/limits")
    async def get_limits(request: Request, tenant: str) -> Response:
        return json_response(engine.tenants.limits(tenant, caller=caller_of(request)))

    @router.put("/{tenant}/limits")
    async def set_limits(request: Request, tenant: str) -> Response:
        body = await read_body(request, LimitsBody)
        wanted = partial(engine.tenants.set_limits, tenant, body.allowance(), why=body.why, caller=caller_of(request))
        return json_response(await in_thread(wanted))


def users_router(engine: Engine) -> APIRouter:
    """People."""
    router = APIRouter(prefix="/users")

    @router.get("")
    async def list_users(request: Request) -> Response:
        return json_response({"users": engine.tenants.users.list(caller=caller_of(request))})

    @router.post("")
    async def add_user(request: Request) -> Response:
        body = await read_body(request, UserBody)
        tenant = None if body.tenant is None else TenantId(body.tenant)
        made = partial(engine.tenants.users.add, body.name, body.password, role=body.role, tenant=tenant, caller=caller_of(request))
        return json_response(await in_thread(made), status=201)

    @router.patch("/{name}")
    async def change_user(request: Request, name: str) -> Response:
        body, caller = await read_body(request, UserChangeBody), caller_of(request)
        if body.password is not None:
            check_password(body.password)  # before anything else of the body holds
        if body.role is not None:
            tenant = None if body.tenant is None else TenantId(body.tenant)
            await in_thread(partial(engine.tenants.users.set_role, name, role=body.role, tenant=tenant, caller=caller))
        if body.disabled is not None:
            act = (
                partial(engine.tenants.users.disable, caller=caller)
                if body.disabled
                else partial(engine.tenants.users.enable, caller=caller)
            )
            await in_thread(partial(act, name))
        if body.password is not None:
            await in_thread(partial(engine.tenants.users.reset, name, body.password, caller=caller))
        return json_response(engine.tenants.directory.user(name, caller))

    @router.delete("/{name}")
    async def delete_user(request: Request, name: str) -> Response:
        await in_thread(partial(engine.tenants.users.delete, name, caller=caller_of(request)))
        return Response(status_code=204)

    return router


def usage_router(engine: Engine) -> APIRouter:
    """Sums a day."""
    router = APIRouter(prefix="/usage")

    @router.get("")
    async def usage(request: Request) -> Response:
        query = request.query_params
        first, last = _day(query.get("first", "0000-01-01"), "first"), _day(query.get("last", "9999-12-31"), "last")
        look = partial(engine.tenants.usage, first=first, last=last, tenant=query.get("tenant"), caller=caller_of(request))
        return json_response({"days": await in_thread(look)})

    return router


async def in_thread(work: Callable[[], T]) -> T:
    """The result of what waits for the database or hashes a password."""
    return await anyio.to_thread.run_sync(work)


def json_response(value: object, *, status: int = 200) -> Response:
    """JSON that is kept nowhere."""
    return Response(orjson.dumps(value), status, {"cache-control": "no-store"}, "application/json")


def _tenant(tenant: TenantRecord) -> dict[str, object]:
    return {
        "id": tenant.id,
        "name": tenant.name,
        "created_unix": tenant.created_unix,
        "suspended": tenant.suspended_unix is not None,
    }


def _day(text: str, param: str) -> str:
    if not DAY.fullmatch(text):
        raise InvalidRequest(f"'{param}' is a day such as 2026-11-30.", param=param, expected="YYYY-MM-DD", found=text)
    return text
