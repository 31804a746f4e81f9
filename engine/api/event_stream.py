"""Server-sent events: one JSON object a chunk, an error event if it breaks, and an end to the work when the client leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from fastapi import Request
from fastapi.responses import Response

from engine.api.generation import Generation, while_connected
from engine.api.refusals import CLIENT_CLOSED_REQUEST, ClientGoneError, error_body
from engine.api.timing import note_outcome, streaming_headers
from engine.api.trace import trace_of
from engine.errors import LoradeckError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from engine.request import TokenChunk

DONE = b"data: [DONE]\n\n"


class ChunkWriter(Protocol):
    """Turns engine chunks into the objects of one endpoint's stream."""

    def write(self, chunk: TokenChunk) -> list[dict[str, Any]]:
        """The objects this chunk is worth, perhaps none."""
        ...

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The object that ends a stream with usage."""
        ...


async def stream_response(request: Request, generation: Generation, writer: ChunkWriter, *, include_usage: bool) -> Response:
    """Waits for the first token, so that an early error keeps its status and the headers know how long it took."""
    events = _events(generation, writer, include_usage=include_usage)
    try:
        first = await while_connected(request.receive, anext(events))
    except BaseException:
        generation.cancel()
        raise
    return EventStream(request, generation, first, events)


async def _events(generation: Generation, writer: ChunkWriter, *, include_usage: bool) -> AsyncGenerator[bytes, None]:
    """Encoded events. An error before the first is raised; a later one is an event, and the last."""
    started = False
    try:
        async with aclosing(generation.chunks()) as chunks:
            async for chunk in chunks:
                for event in writer.write(chunk):
                    yield _encode(event)
                    started = True
    except LoradeckError as error:
        if not started:
            raise
        yield _encode(error_body(error))
        return
    if include_usage:
        yield _encode(writer.usage(generation.usage().as_json()))
    yield DONE


def _encode(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


class EventStream(Response):
    """Sends events while watching the connection; when it closes, the engine's work is cancelled."""

    media_type = "text/event-stream"

    def __init__(self, request: Request, generation: Generation, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self.status_code = 200
        self.background = None
        self._request = request
        self._generation = generation
        self._first = first
        self._rest = rest
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no", **streaming_headers(request, generation)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end or until nobody listens."""
        del scope  # the request has it
        try:
            await while_connected(receive, self._send_all(send))
        except ClientGoneError:
            trace_of(self._request).status = CLIENT_CLOSED_REQUEST
        finally:
            self._generation.cancel()
            note_outcome(self._request, self._generation)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for event in self._rest:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
