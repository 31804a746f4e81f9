"""One id and one log line for every API request."""

from __future__ import annotations

import logging
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.api.log_lines import fields

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("loradeck.api")

USABLE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")


@dataclass(slots=True, kw_only=True)
class Trace:
    """What the log line of one request will say. Owned by the request's task."""

    id: str
    begun_s: float
    status: int = 0
    notes: dict[str, object] = field(default_factory=dict)


class TraceRequests:
    """ASGI middleware: takes or makes ``X-Request-Id``, sends it back, and logs the request when it is over."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with its trace in ``scope["state"]``."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        trace = Trace(id=_request_id(scope), begun_s=time.perf_counter())
        scope.setdefault("state", {})["trace"] = trace

        async def traced(message: Message) -> None:
            if message["type"] == "http.response.start":
                trace.status = trace.status or message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", trace.id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, traced)
        finally:
            seconds = time.perf_counter() - trace.begun_s
            log.info(
                "request %s",
                fields(id=trace.id, method=scope["method"], path=scope["path"], status=trace.status, seconds=seconds, **trace.notes),
            )


def trace_of(request: Request) -> Trace:
    """The trace of a request that went through ``TraceRequests``."""
    state: dict[str, Any] = request.scope["state"]
    trace = state["trace"]
    assert isinstance(trace, Trace)
    return trace


def _request_id(scope: Scope) -> str:
    """The client's id where it is short and plain, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and USABLE_ID.fullmatch(value):
            return str(value, "ascii")
    return f"req-{uuid.uuid4().hex}"
