"""``/api/audit``: who changed what, and taking it back."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.aliases import answer, tenant_in, why_of
from engine.api.auth import operator_of, viewer_of
from engine.api.queries import number, whole

if TYPE_CHECKING:
    from engine.audit_record import AuditRecord
    from engine.engine import Engine


def audit_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter(prefix="/audit")

    @router.get("")
    async def list_lines(request: Request) -> Response:
        query = request.query_params
        look = partial(
            engine.audit.lines,
            tenant=tenant_in(request),
            kind=query.get("kind"),
            subject=query.get("object"),
            action=query.get("action"),
            by=query.get("by"),
            before=None if "before" not in query else number(query, "before", default=0),
            limit=number(query, "limit", default=100, most=1000),
            caller=viewer_of(request),
        )
        return answer({"lines": [_line_json(engine, line) for line in await anyio.to_thread.run_sync(look)]})

    @router.post("/{key}/undo")
    async def undo(request: Request, key: str) -> Response:
        caller, why = operator_of(request), (await why_of(request)).why or ""
        line = await anyio.to_thread.run_sync(partial(engine.audit.undo, whole("key", key), why=why, caller=caller))
        return answer(_line_json(engine, line))

    return router


def _line_json(engine: Engine, line: AuditRecord) -> dict[str, object]:
    return {**asdict(line), "reversible": engine.audit.reversible(line)}
