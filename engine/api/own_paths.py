"""Paths that are ours whatever is mounted beside them: each is answered by us, and HEAD as GET without its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.api.refusals import http_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALONE = frozenset({"/health", "/metrics"})
BELOW = ("/v1/", "/api/")
METHOD_NOT_ALLOWED = 405


def is_below(path: str) -> bool:
    """Whether a path is one of the mounted applications', with a slash at its end or without."""
    return f"{path}/".startswith(BELOW)


class OwnPaths:
    """ASGI middleware around what a console is mounted on, which would answer for the rest, and with pages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as what our routes know."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path in ALONE or is_below(path)):
            return await self.app(scope, receive, send)
        is_head = scope["method"] == "HEAD"
        method = "GET" if is_head else scope["method"]
        if path in ALONE and method != "GET":
            return await http_refusal(METHOD_NOT_ALLOWED, headers={"allow": "GET, HEAD"})(scope, receive, send)
        path = f"{path}/" if f"{path}/" in BELOW else path
        return await self.app({**scope, "path": path, "method": method}, receive, _without_body(send) if is_head else send)


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head
