"""``/api/schedules``: what is warmed when; and ``/api/gate``: what scores must be at least."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.aliases import answer, tenant_in, why_of
from engine.api.auth import caller_of, operator_of, viewer_of
from engine.api.body import read_body
from engine.api.queries import whole
from engine.api.version_bodies import GateBody, ScheduleBody
from engine.ids import DEFAULT_TENANT, TenantId
from engine.report import Thresholds
from engine.versions.schedules import Wish
from engine.versions.times import WEEKDAYS

if TYPE_CHECKING:
    from engine.desired import Schedule
    from engine.engine import Engine


def schedules_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/schedules")

    @router.get("")
    async def list_schedules(request: Request) -> Response:
        found = engine.schedules.every(tenant=tenant_in(request), caller=viewer_of(request))
        return answer({"schedules": [_schedule_json(engine, one) for one in found]})

    @router.post("")
    async def add_schedule(request: Request) -> Response:
        caller, body = operator_of(request), await read_body(request, ScheduleBody)
        tenant = None if body.tenant is None else TenantId(body.tenant)
        add = partial(engine.schedules.add, _wish(body), tenant=tenant, why=body.why or "", caller=caller)
        return answer(_schedule_json(engine, await anyio.to_thread.run_sync(add)), status=201)

    @router.put("/{key}")
    async def change_schedule(request: Request, key: str) -> Response:
        caller, body = operator_of(request), await read_body(request, ScheduleBody)
        change = partial(engine.schedules.change, whole("key", key), _wish(body), why=body.why or "", caller=caller)
        return answer(_schedule_json(engine, await anyio.to_thread.run_sync(change)))

    @router.delete("/{key}")
    async def drop_schedule(request: Request, key: str) -> Response:
        caller, why = operator_of(request), (await why_of(request)).why or ""
        await anyio.to_thread.run_sync(partial(engine.schedules.drop, whole("key", key), why=why, caller=caller))
        return answer({"key": int(key), "dropped": True})

    return router


def gate_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/gate")

    @router.get("")
    async def show(request: Request) -> Response:
        caller = viewer_of(request)
        return answer(engine.versions.thresholds.of(caller.tenant or tenant_in(request) or DEFAULT_TENANT))

    @router.put("")
    async def change(request: Request) -> Response:
        caller = caller_of(request)
        caller.need("admin")
        body = await read_body(request, GateBody)
        wanted = Thresholds(min_score=body.min_score, max_drop=body.max_drop)
        tenant = None if body.tenant is None else TenantId(body.tenant)
        change = partial(engine.versions.thresholds.set, wanted, tenant=tenant, why=body.why or "", caller=caller)
        await anyio.to_thread.run_sync(change)
        return answer(wanted)

    return router


def _wish(body: ScheduleBody) -> Wish:
    return Wish(
        alias=body.alias,
        trigger=body.trigger,
        at=body.at,
        days=tuple(body.days),
        zone=body.zone,
        tier=body.tier,
        enabled=body.enabled,
    )


def _schedule_json(engine: Engine, one: Schedule) -> dict[str, Any]:
    at = None if one.minute is None else f"{one.minute // 60:02}:{one.minute % 60:02}"
    facts = asdict(one) | {"days": [WEEKDAYS[day] for day in one.days], "at": at, "due_unix": engine.schedules.due_unix(one)}
    del facts["minute"]
    return facts
