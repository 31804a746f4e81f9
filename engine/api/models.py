"""``GET /v1/models``: the bases and every alias the caller may use, with where the weights are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.auth import caller_of
from engine.api.long_answer import long_answer, rows_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.engine import Engine
    from engine.router import ModelCard


def models_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.get("/models")
    async def list_models(request: Request) -> Response:
        caller = caller_of(request)

        def parts() -> Iterator[bytes]:
            yield b'{"object":"list","data":'
            yield from rows_json(map(_card_json, engine.models(caller.tenant, key=caller.key)))
            yield b"}"

        return long_answer(parts())

    @router.get("/models/{model:path}")
    async def retrieve_model(request: Request, model: str) -> Response:
        caller = caller_of(request)
        card = engine.card(model, caller.tenant, key=caller.key)
        return Response(orjson.dumps(_card_json(card)), media_type="application/json")

    return router


def _card_json(card: ModelCard) -> dict[str, Any]:
    residency = {"tier": card.tier, "pinned": card.pinned, "bytes": card.bytes, "version": card.adapter}
    return {
        "id": card.id,
        "object": "model",
        "created": card.created_unix,
        "owned_by": "loradeck",
        "root": card.root,
        "parent": card.parent,
        "x_residency": residency,
    }
