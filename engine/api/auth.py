"""Who is asking: in local mode everybody on this machine is tenant ``default``, with any API key or none, but not other sites' pages."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import Request

from engine.api.refusals import error_response
from engine.api.trace import trace_of
from engine.caller import LOCAL, Caller
from engine.errors import SourceNotAllowed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def caller_of(request: Request) -> Caller:
    """Who asks; an API key is not looked at while the server listens on loopback only."""
    return replace(LOCAL, request=trace_of(request).id)


def viewer_of(request: Request) -> Caller:
    """Who asks, if it may look. Raises Forbidden."""
    caller = caller_of(request)
    caller.need("viewer")
    return caller


class RefuseForeignPages:
    """ASGI middleware: a page of another site, open in a browser on this machine, may not use the API without an account."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve requests of programs (no ``Origin``) and of pages that this machine serves."""
        origin = dict(scope.get("headers", ())).get(b"origin")
        if origin is None or is_local_origin(origin.decode("latin-1")):
            return await self.app(scope, receive, send)
        refusal = SourceNotAllowed("Pages of other sites may not use this API.", code="origin_not_allowed", param="Origin")
        return await error_response(refusal)(scope, receive, send)


def is_local_origin(origin: str) -> bool:
    """Whether a browser's ``Origin`` is a page served from this machine."""
    try:
        host = urlsplit(origin).hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
