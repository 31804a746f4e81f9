"""``/api/imports``, ``/api/uploads`` and ``/api/operations``: register many, look before, and follow the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field

from engine.api.auth import caller_of
from engine.api.body import read_body
from engine.api.queries import flag, number, one_of
from engine.api.registering import register_in_thread
from engine.api.schemas import StrictBody
from engine.errors import InvalidRequest
from engine.intake.importing import Import
from engine.operation import ItemState

if TYPE_CHECKING:
    from engine.caller import Caller
    from engine.engine import Engine
    from engine.intake.progress import DryRun, Progress
    from engine.operation import ItemRecord

MOST_ROWS = 1000
DEFAULT_ROWS = 100
ACCEPTED = 202
SHOWN_OPTIONS = frozenset({"source", "alias", "replace", "compatible_base", "base_digest"})
VERBS: tuple[Literal["cancel", "resume", "retry"], ...] = ("cancel", "resume", "retry")


class ImportBody(StrictBody):
    """``POST /api/imports``. One of ``manifest`` (its text), ``source`` (a manifest's file) or ``prefix`` (a folder to scan)."""

    manifest: str | None = None
    source: str | None = None
    prefix: str | None = None
    format: Literal["csv", "jsonl", "yaml"] | None = None
    alias: str | None = Field(None, max_length=200)
    tenant: str | None = Field(None, max_length=64)
    replace: bool = False
    compatible_base: bool = False
    dry_run: bool = False
    offset: int = Field(0, ge=0)
    limit: int = Field(DEFAULT_ROWS, ge=1, le=MOST_ROWS)


def imports_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.post("/imports")
    async def post_import(request: Request) -> Response:
        caller = caller_of(request)
        caller.need("operator")  # before the body is looked at; the service asks again
        body = await read_body(request, ImportBody)
        ask = _import_of(body)
        return await begin_import(engine, ask, dry_run=body.dry_run, offset=body.offset, limit=body.limit, caller=caller)

    @router.post("/uploads")
    async def post_upload(request: Request) -> Response:
        return await _take_upload(engine, request)

    @router.get("/operations")
    async def list_operations(request: Request) -> Response:
        query = request.query_params
        offset, limit = number(query, "offset", default=0), number(query, "limit", default=DEFAULT_ROWS, most=MOST_ROWS)
        found = await _ask(partial(engine.operations.page, offset=offset, limit=limit, caller=caller_of(request)))
        return _json({"operations": [_operation_json(one) for one in found], "offset": offset, "limit": limit})

    @router.get("/operations/{operation}")
    async def get_operation(request: Request, operation: str) -> Response:
        return _json(_operation_json(await _ask(partial(engine.operations.get, operation, caller=caller_of(request)))))

    @router.get("/operations/{operation}/rows")
    async def get_rows(request: Request, operation: str) -> Response:
        query = request.query_params
        state = one_of(query, "state", get_args(ItemState))
        offset, limit = number(query, "offset", default=0), number(query, "limit", default=DEFAULT_ROWS, most=MOST_ROWS)
        look = partial(engine.operations.rows, operation, state=state, offset=offset, limit=limit, caller=caller_of(request))  # type: ignore[arg-type]
        return _json({"rows": [_item_json(item) for item in await _ask(look)], "offset": offset, "limit": limit})

    router.add_api_route("/operations/{operation}/errors.csv", _errors(engine), methods=["GET"], name="get_errors")
    for verb in VERBS:
        router.add_api_route(f"/operations/{{operation}}/{verb}", _command(engine, verb), methods=["POST"], name=f"{verb}_operation")
    return router


def _command(engine: Engine, verb: Literal["cancel", "resume", "retry"]) -> Callable[[Request, str], Any]:
    async def command(request: Request, operation: str) -> Response:
        act: Callable[..., Progress] = getattr(engine.operations, verb)
        return _json(_operation_json(await _ask(partial(act, operation, caller=caller_of(request)))), status=ACCEPTED)

    return command


def _errors(engine: Engine) -> Callable[[Request, str], Any]:
    async def errors(request: Request, operation: str) -> Response:
        parts: Iterator[bytes] = await _ask(partial(engine.operations.errors_csv, operation, caller=caller_of(request)))
        headers = {"content-disposition": f'attachment; filename="operation-{operation[:8]}-errors.csv"'}
        return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)

    return errors


def _import_of(body: ImportBody) -> Import:
    given = [name for name in ("manifest", "source", "prefix") if getattr(body, name) is not None]
    if len(given) != 1:
        raise InvalidRequest("Give one of 'manifest', 'source' and 'prefix'.", param="source", expected="one of them", found=given)
    if body.manifest is not None and body.format is None:
        raise InvalidRequest("A manifest's text needs its 'format'.", code="missing_required_parameter", param="format")
    return Import(
        kind="scan" if body.prefix is not None else "manifest",
        source=body.prefix or body.source or "",
        manifest=body.manifest or "",
        form=body.format,
        alias=body.alias or "",
        tenant=body.tenant or "",
        replace=body.replace,
        compatible_base=body.compatible_base,
    )


async def begin_import(engine: Engine, ask: Import, *, dry_run: bool, offset: int, limit: int, caller: Caller) -> Response:
    """200 with what would be, or 202 with the operation."""
    if dry_run:
        told = await register_in_thread(partial(engine.operations.dry_run, ask, offset=offset, limit=limit, caller=caller))
        return _json(_dry_run_json(told))
    started = await register_in_thread(partial(engine.operations.start, ask, caller=caller))
    return _json(_operation_json(started), status=ACCEPTED)


async def _take_upload(engine: Engine, request: Request) -> Response:
    """A zip as the body: kept under a name of ours while it is needed."""
    caller, query = caller_of(request), request.query_params
    caller.need("operator")
    dry_run, uploads = bool(flag(query, "dry_run")), engine.operations.uploads
    name = await uploads.keep(request.stream())
    started = False
    try:
        ask = Import(
            kind="upload",
            upload=name,
            alias=query.get("alias", "")[:200],
            tenant=query.get("tenant", "")[:64],
            replace=bool(flag(query, "replace")),
            compatible_base=bool(flag(query, "compatible_base")),
        )
        offset, limit = number(query, "offset", default=0), number(query, "limit", default=DEFAULT_ROWS, most=MOST_ROWS)
        answer = await begin_import(engine, ask, dry_run=dry_run, offset=offset, limit=limit, caller=caller)
        started = not dry_run
        return answer
    finally:
        if not started:
            uploads.drop(name)


def _operation_json(one: Progress) -> dict[str, Any]:
    record = asdict(one.record)
    options = {name: value for name, value in record.pop("options").items() if name in SHOWN_OPTIONS}
    waiting = one.record.total - one.record.done - one.record.failed
    code = (one.record.options.get("code") or None) if one.record.state == "failed" else None
    shown = {"waiting": waiting, "per_s": one.per_s, "eta_s": one.eta_s, "stalled": one.stalled or None}
    return {**record, "code": code, "options": options, **shown}


def _item_json(item: ItemRecord) -> dict[str, Any]:
    error = None if item.code is None else {"code": item.code, "message": item.message, "param": item.result.get("param")}
    return {
        "number": item.number,
        "state": item.state,
        "outcome": item.outcome,
        "row": item.data,
        "result": None if error else item.result,
        "error": error,
    }


def _dry_run_json(told: DryRun) -> dict[str, Any]:
    rows = [
        {
            "line": one.row.line,
            "alias": one.row.alias,
            "tenant": one.row.tenant,
            "source": one.row.source,
            "outcome": one.outcome,
            **one.facts,
            "error": None if one.fault is None else asdict(one.fault),
        }
        for one in told.rows
    ]
    return {"dry_run": True, "rows": rows, "total": told.total, "offset": told.offset}


async def _ask(look: Callable[[], Any]) -> Any:
    """The registry is read and written off the loop."""
    return await anyio.to_thread.run_sync(look)


def _json(value: object, *, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
