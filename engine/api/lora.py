"""``/v1/load_lora_adapter`` and ``/v1/unload_lora_adapter`` in vLLM's shapes, for scripts written against it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from engine.api.auth import caller_of
from engine.api.body import read_body
from engine.api.registering import register_in_thread
from engine.api.schemas import LoadLoraBody, UnloadLoraBody

if TYPE_CHECKING:
    from engine.engine import Engine


def lora_router(engine: Engine) -> APIRouter:
    """The routes, over one engine."""
    router = APIRouter()

    @router.post("/load_lora_adapter")
    async def load_lora_adapter(request: Request) -> Response:
        body = await read_body(request, LoadLoraBody)
        caller, replace = caller_of(request), bool(body.load_inplace)
        await register_in_thread(partial(engine.register, body.lora_path, alias=body.lora_name, replace=replace, caller=caller))
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    @router.post("/unload_lora_adapter")
    async def unload_lora_adapter(request: Request) -> Response:
        body = await read_body(request, UnloadLoraBody)
        await register_in_thread(partial(engine.unregister, body.lora_name, caller=caller_of(request)))
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    return router
