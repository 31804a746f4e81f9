"""``GET /v1/models``: the bases and every alias the caller may use, with where the weights are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.auth import caller_of
from engine.errors import ModelNotFound

if TYPE_CHECKING:
    from engine.caller import Caller
    from engine.engine import Engine
    from engine.router import ModelCard


def models_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.get("/models")
    async def list_models(request: Request) -> Response:
        cards = [_card_json(card) for card in _cards(engine, caller_of(request))]
        return Response(orjson.dumps({"object": "list", "data": cards}), media_type="application/json")

    @router.get("/models/{model:path}")
    async def retrieve_model(request: Request, model: str) -> Response:
        return Response(orjson.dumps(_card_json(_card(engine, model, caller_of(request)))), media_type="application/json")

    return router


def _cards(engine: Engine, caller: Caller) -> tuple[ModelCard, ...]:
    return engine.models(caller.tenant, key=caller.key)


def _card(engine: Engine, model: str, caller: Caller) -> ModelCard:
    """The card of an alias, a base or a version id. Raises ModelNotFound."""
    target = engine.resolve(model, caller.tenant, key=caller.key)
    cards = _cards(engine, caller)
    for card in cards:
        if card.id == model:
            return card
    for card in cards:
        if card.adapter == target.adapter:
            return replace(card, id=model)
    raise ModelNotFound("The model does not exist.", param="model", found=model)


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
