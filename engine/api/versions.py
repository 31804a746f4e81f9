"""``/api/adapters/{ref}/…``: reports, versions, and a version's last steps. A ``ref`` is an alias, a version id or ``line@number``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.aliases import answer, asked, tenant_in, version_json, why_of
from engine.api.auth import caller_of, operator_of, viewer_of
from engine.api.queries import number

if TYPE_CHECKING:
    from engine.caller import Caller
    from engine.engine import Engine
    from engine.versions.retirement import Departure

Verb = Literal["retire", "archive", "restore"]
VERBS: tuple[Verb, ...] = ("retire", "archive", "restore")


def versions_router(engine: Engine) -> APIRouter:
    """The routes, over one engine; before those of ``/api/adapters/{ref}``, which take any path."""
    router = APIRouter(prefix="/adapters")

    @router.get("/{ref:path}/report")
    async def report(request: Request, ref: str) -> Response:
        wanted, caller = number(request.query_params, "version", default=0), viewer_of(request)
        look = partial(engine.versions.report, ref, number=wanted or None, tenant=tenant_in(request), caller=caller)
        return answer(_facts_json(await anyio.to_thread.run_sync(look), caller))

    @router.get("/{ref:path}/versions")
    async def versions(request: Request, ref: str) -> Response:
        limit, offset = number(request.query_params, "limit", default=100, most=1000), number(request.query_params, "offset", default=0)
        caller = viewer_of(request)
        look = partial(engine.versions.history, ref, tenant=tenant_in(request), limit=limit, offset=offset, caller=caller)
        return answer({"versions": [_facts_json(facts, caller) for facts in await anyio.to_thread.run_sync(look)]})

    for verb in VERBS:
        router.add_api_route(f"/{{ref:path}}/{verb}", _endpoint(engine, verb), methods=["POST"], name=verb)

    @router.delete("/{ref:path}/archive")
    async def delete_archive(request: Request, ref: str) -> Response:
        caller = caller_of(request)
        caller.need("admin")  # before the body is looked at; the service asks again
        more = asked(request, await why_of(request))
        delete = partial(engine.versions.removal.delete_archive, ref, caller=caller, **more)
        return answer(_departure_json(await anyio.to_thread.run_sync(delete)))

    return router


def _endpoint(engine: Engine, verb: Verb) -> Callable[[Request, str], Awaitable[Response]]:
    async def depart(request: Request, ref: str) -> Response:
        caller, retirement = operator_of(request), engine.versions.retirement
        steps = {
            "retire": partial(retirement.retire, ref, caller=caller),
            "archive": partial(retirement.archive, ref, caller=caller),
            "restore": partial(retirement.restore, ref, caller=caller),
        }
        more = asked(request, await why_of(request))
        return answer(_departure_json(await anyio.to_thread.run_sync(partial(steps[verb], **more))))

    return depart


def _facts_json(facts: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Without the registry's own key where it would tell a tenant how many versions others have."""
    return facts if caller.tenant is None else {name: value for name, value in facts.items() if name != "key"}


def _departure_json(done: Departure) -> dict[str, object]:
    return {
        "version": version_json(done.version),
        "preview": done.preview,
        "message": done.message,
        "aliases": done.aliases,
        "leases": done.leases,
        "drain_eta_s": done.drain_eta_s,
        "bytes": done.bytes,
    }
