"""What a caller is told when something is refused: one shape, OpenAI's."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from engine.api.limit_headers import limit_headers
from engine.api.log_lines import fields
from engine.errors import Conflict, EngineFault, InvalidRequest, LoradeckError, NotReady, Overloaded, Unauthorized

log = logging.getLogger("loradeck.api")

LONGEST_MESSAGE = 2000
LONGEST_VALUE = 200
CLIENT_CLOSED_REQUEST = 499
RETRY_NOT_READY_S = 1.0
LONGEST_RETRY_S = 120.0
"""OpenAI's clients do not wait longer."""

BY_STATUS = {
    400: ("invalid_request_error", "invalid_request", "The request cannot be understood."),
    404: ("invalid_request_error", "not_found", "There is no such path. Loradeck serves /v1 (OpenAI's API), /api, /health and /metrics."),
    405: ("invalid_request_error", "method_not_allowed", "This path does not take this method."),
}


class ClientGoneError(Exception):
    """The client closed its connection before it was answered."""


def error_body(error: LoradeckError) -> dict[str, Any]:
    """``{"error": {...}}`` of a refusal, with the sum that decided where there is one."""
    body: dict[str, Any] = {
        "message": shorten(error.message, LONGEST_MESSAGE),
        "type": error.kind,
        "param": None if error.param is None else shorten(error.param, LONGEST_VALUE),
        "code": error.code,
        "expected": presentable(error.expected),
        "found": presentable(error.found),
    }
    if isinstance(error, Conflict) and error.arithmetic:
        body["arithmetic"] = [{"label": label, "pages": pages} for label, pages in error.arithmetic]
    if isinstance(error, Overloaded) and error.scope is not None:
        body |= {"scope": error.scope, "retry_after_s": error.retry_after_s}
    return {"error": body}


def error_response(error: LoradeckError) -> Response:
    """The whole answer to a refusal, with headers that tell an SDK whether to retry."""
    return Response(orjson.dumps(error_body(error)), error.status, retry_headers(error), "application/json")


def http_refusal(status: int, *, detail: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """The answer to what no route takes."""
    kind, code, message = BY_STATUS.get(status, ("invalid_request_error", "http_error", detail))
    refusal = InvalidRequest(message, code=code)
    refusal.kind = kind
    return Response(orjson.dumps(error_body(refusal)), status, headers, "application/json")


def retry_headers(error: LoradeckError) -> dict[str, str]:
    """``Retry-After`` where waiting helps; ``x-should-retry: false`` where SDKs would retry and it does not."""
    if isinstance(error, Overloaded):
        seconds = error.retry_after_s
        return {
            "Retry-After": str(max(1, math.ceil(seconds))),
            "retry-after-ms": str(math.ceil(seconds * 1000)),
            **({} if seconds <= LONGEST_RETRY_S else {"x-should-retry": "false"}),
            **({} if error.headroom is None else limit_headers(error.headroom)),
        }
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, NotReady):
        return {"Retry-After": str(math.ceil(RETRY_NOT_READY_S))}
    if isinstance(error, Conflict):
        return {"x-should-retry": "false"}
    return {}


def install_handlers(app: FastAPI) -> None:
    """Make every error of ``app`` JSON in that shape, unknown paths and our own bugs included."""
    app.add_exception_handler(LoradeckError, _refused)
    app.add_exception_handler(HTTPException, _http_refused)
    app.add_exception_handler(ClientGoneError, _client_gone)
    app.add_exception_handler(Exception, _our_bug)


def presentable(value: object) -> object:
    """A JSON value of bounded size for ``expected`` and ``found``."""
    if value is None or isinstance(value, (bool, int)):
        return value if not isinstance(value, int) or abs(value) < 2**53 else str(value)[:LONGEST_VALUE]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (tuple, list)) and len(value) <= 16:  # noqa: PLR2004 - a shape or a short list reads best as it is
        return [presentable(item) for item in value]
    return shorten(str(value), LONGEST_VALUE)


def shorten(text: str, longest: int) -> str:
    """The text, cut with an ellipsis, and without what UTF-8 cannot carry."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LoradeckError)
    return error_response(error)


async def _http_refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return http_refusal(error.status_code, detail=str(error.detail), headers=error.headers)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _our_bug(request: Request, error: Exception) -> Response:
    log.error("request failed %s", fields(path=request.url.path, error=type(error).__name__, message=error))
    return error_response(EngineFault("Something went wrong inside Loradeck; the request was not answered. The log has the details."))
