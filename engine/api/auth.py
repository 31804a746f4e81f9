"""Who is asking, proven before any route is found: nothing is open but what says so."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers

from engine.api.own_paths import is_below
from engine.api.refusals import error_response
from engine.api.trace import trace_of
from engine.caller import LOCAL, Caller
from engine.errors import Forbidden, LoradeckError, SourceNotAllowed, Unauthorized
from engine.gateway.keys import bearer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from engine.engine import Engine

Door = Literal["v1", "api", "outer"]
OPEN = {"/health"}
"""Paths for everybody."""
SIGN_IN = ("POST", "/api/session")
OF_ANY_KEY = ("/api/usage",)
"""Paths below ``/api`` for keys that have no role: they see their own tenant's."""
POLICY_VIOLATION = 1008


def caller_of(request: Request) -> Caller:
    """Who asks, as ``Guard`` has proven it."""
    caller = request.scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return replace(caller, request=trace_of(request).id)


def viewer_of(request: Request) -> Caller:
    """Who asks, if it may look. Raises Forbidden."""
    caller = caller_of(request)
    caller.need("viewer")
    return caller


def operator_of(request: Request) -> Caller:
    """Who asks, if it may change what serves. Raises Forbidden, before the body is looked at."""
    caller = caller_of(request)
    caller.need("operator")
    return caller


class Guard:
    """ASGI middleware: proves the caller and leaves it in ``scope["state"]``, or refuses. ``outer`` stands around everything.

    In local mode whoever sits at this machine is admin, but no page of another site is, under whatever name it reached us. Else ``/v1``
    and ``/metrics`` need a key, ``/api`` a key with a role or the token of a signed-in user, and all other paths need the console's own
    guard to have let the request in.
    """

    def __init__(self, app: ASGIApp, engine: Engine, door: Door) -> None:
        self.app = app
        self._engine = engine
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass."""
        if scope["type"] not in {"http", "websocket"}:
            return await self.app(scope, receive, send)
        try:
            self._check(scope)
        except LoradeckError as refusal:
            if scope["type"] == "websocket":
                return await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return await error_response(refusal)(scope, receive, send)
        return await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raise Unauthorized or Forbidden, or know who it is."""
        path, state, headers = scope["path"], scope.setdefault("state", {}), Headers(scope=scope)
        if path in OPEN:
            return
        access = self._engine.tenants.access
        if access.mode == "local":
            check_local(headers)
            state["caller"] = LOCAL
        elif self._door != "outer" or path == "/metrics":
            if scope["type"] == "http" and (scope["method"], path) == SIGN_IN:
                return
            state["caller"] = self._prove(path, headers)
        elif "caller" not in state and not state.get("is_open") and not is_below(path):
            raise Unauthorized("Sign in first.", code="not_signed_in")

    def _prove(self, path: str, headers: Headers) -> Caller:
        token = bearer(headers.get("authorization"))
        if token is None:
            raise Unauthorized("An API key is needed: Authorization: Bearer sk-…")
        access = self._engine.tenants.access
        if self._door == "api" and token.startswith("ls-"):
            return access.by_session(token, "api")
        caller = access.by_key(token)
        if path == "/metrics":
            caller.need("viewer", everywhere=True)
        if self._door == "api" and caller.role is None and path not in OF_ANY_KEY:
            raise Forbidden("This key may call models and nothing else.", expected="a key with a role", found=None)
        return caller


def check_local(headers: Headers) -> None:
    """Raise where the call comes from, or was addressed to, another site: without accounts its pages would be admin."""
    origin, host = headers.get("origin"), headers.get("host")
    if origin is not None and not is_local_origin(origin):
        raise SourceNotAllowed("Pages of other sites may not use this API.", code="origin_not_allowed", param="Origin")
    if host is not None and not is_local_origin(f"http://{host}"):
        raise SourceNotAllowed("This machine was called by a name that is not its own.", code="host_not_allowed", param="Host")


def is_local_origin(origin: str) -> bool:
    """Whether a browser's ``Origin`` is a page served from this machine."""
    try:
        host = urlsplit(origin).hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
