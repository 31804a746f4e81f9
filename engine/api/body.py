"""Request bodies: capped while they stream in, parsed strictly, refused by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import anyio
import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from engine.api.refusals import error_response
from engine.errors import InvalidRequest, PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic_core import ErrorDetails
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Body = TypeVar("Body", bound=BaseModel)

DRAIN_S = 2.0
SMALL_BODY = 64 * 1024


class BodyLimit:
    """ASGI middleware that holds at most ``max_bytes`` of a body and answers 413 to more, before the rest arrives."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, unless: Collection[str] = ()) -> None:
        self.app = app
        self.unless = unless
        """Paths that count their bodies themselves, as they stream."""
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body in one piece, or refuse it."""
        headers = dict(scope.get("headers", ()))
        counts_itself = scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) in self.unless
        if scope["type"] != "http" or counts_itself or not ({b"content-length", b"transfer-encoding"} & headers.keys()):
            return await self.app(scope, receive, send)
        declared = headers.get(b"content-length", b"0")
        body = await self._read(receive) if declared.isdigit() and len(declared) < 20 and int(declared) <= self.max_bytes else None  # noqa: PLR2004 - digits of 2**64
        if body is None:
            return await self._refuse(receive, send)
        return await self.app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> list[Message] | None:
        """The messages of the body; None as soon as they hold more than the cap."""
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self.max_bytes:
                return None
            if message["type"] != "http.request" or not message.get("more_body", False):
                return messages

    async def _refuse(self, receive: Receive, send: Send) -> None:
        """Answer first, then read and drop what still comes, so that the client is not reset before it reads the answer."""
        error = PayloadTooLarge(f"The body is larger than {self.max_bytes} bytes.", expected=f"at most {self.max_bytes} bytes")
        response = error_response(error)
        headers = [*response.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        with anyio.move_on_after(DRAIN_S):
            message: Message = {"more_body": True}
            while message.get("more_body", False):
                message = await receive()
        await send({"type": "http.response.body", "body": b""})


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """A ``receive`` that gives these messages first."""
    pending = iter(messages)

    async def replay() -> Message:
        message = next(pending, None)
        return message if message is not None else await receive()

    return replay


async def read_body(request: Request, schema: type[Body]) -> Body:
    """The request's body as ``schema``; InvalidRequest names the field at fault."""
    raw = await request.body()
    if len(raw) > SMALL_BODY:
        return await anyio.to_thread.run_sync(parse_body, raw, schema)
    return parse_body(raw, schema)


def parse_body(raw: bytes, schema: type[Body]) -> Body:
    """Strict JSON (no NaN, no lone surrogates, bounded depth) checked against ``schema``."""
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object.", code="invalid_json", expected="object", found=type(document).__name__)
    try:
        return schema.model_validate(document)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False)[0]) from None


def _refusal(detail: ErrorDetails) -> InvalidRequest:
    """The first thing wrong, by field."""
    param = ".".join(str(part) for part in detail["loc"]) or None
    if detail["type"] == "missing":
        return InvalidRequest(f"'{param}' is required.", code="missing_required_parameter", param=param)
    code = "invalid_type" if detail["type"].endswith("_type") else "invalid_value"
    message = detail["msg"].removeprefix("Value error, ")
    expected = message.removeprefix("Input should be ") if message.startswith("Input should be ") else None
    return InvalidRequest(f"'{param}': {_lower(message)}.", code=code, param=param, expected=expected, found=_found(detail["input"]))


def _found(value: object) -> object:
    if isinstance(value, (list, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return value


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")
