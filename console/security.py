"""What stands between the console and other sites: headers, the origin of sockets, the cookie's key."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.requests import HTTPConnection

from console.visitor import COOKIE
from engine import LoradeckError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from engine import Engine

SOCKET_PATH: Final = "/_nicegui_ws/"
CONTENT_POLICY: Final = (
    "default-src 'self'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; "  # the page's templates are compiled in the browser
    "style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; "
    "font-src 'self' data:; "
    "connect-src 'self'; "
    "worker-src 'self' blob:; "
    "frame-ancestors 'none'; "
    "object-src 'none'; "
    "base-uri 'self'; "
    "form-action 'self'"
)
HEADERS: Final = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
FORBIDDEN_SOCKET: Final = 4403
ELSEWHERE: Final = frozenset({"/health", "/metrics", "/v1", "/api"})
"""Guarded by the API."""
OPEN: Final = frozenset({("GET", "/login"), ("POST", "/login"), ("GET", "/favicon.ico")})
"""By method, since what is no route of ours would be answered by the console's own application."""


class ConsoleGuard:
    """Pure ASGI: refuses sockets from other origins and whoever is not signed in, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self.app = app
        self._access = engine.tenants.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, unless a foreign page opened it."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        if SOCKET_PATH in scope["path"] and not is_same_origin(scope):
            await _refuse(scope, send)
            return
        if not self._lets_in(scope):
            await _to_sign_in(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", ())}
                message["headers"] = [*message.get("headers", ()), *(pair for pair in HEADERS if pair[0] not in present)]
            await send(message)

        await self.app(scope, receive, send_guarded)

    def _lets_in(self, scope: Scope) -> bool:
        """Whether it is no path of the console, open to all, or of somebody who is signed in; who that is, is left in the scope."""
        path, state = scope["path"], scope.setdefault("state", {})
        if self._access.mode == "local" or path.startswith(("/v1/", "/api/")) or path in ELSEWHERE:
            return True
        if (scope.get("method"), path) in OPEN or (scope["type"] == "http" and path.startswith("/static/")):
            state["is_open"] = True
            return True
        try:
            state["caller"] = self._access.by_session(HTTPConnection(scope).cookies.get(COOKIE, ""), "console")
        except LoradeckError:
            return False
        return True


def is_same_origin(scope: Scope) -> bool:
    """Whether ``Origin`` names the host that was called; a caller without one is no browser page."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin")
    return origin is None or urlsplit(origin.decode("latin-1")).netloc == headers.get(b"host", b"").decode("latin-1")


async def _to_sign_in(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": FORBIDDEN_SOCKET})
    elif scope["method"] == "GET" and not scope["path"].startswith("/_nicegui"):
        await RedirectResponse("/login", 303)(scope, receive, send)
    else:
        await PlainTextResponse("Sign in first.", 401)(scope, receive, send)


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": FORBIDDEN_SOCKET})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain"), *HEADERS]})
    await send({"type": "http.response.body", "body": b"This socket serves the console's own pages only."})


def storage_secret(data: Path) -> str:
    """The key of the console's cookie: made once, kept in a file that only its owner may read."""
    path = data / "console.secret"
    data.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(32), encoding="ascii")
    path.chmod(0o600)
    return path.read_text(encoding="ascii").strip()
