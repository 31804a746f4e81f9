"""Signing in and out: a plain form, since nobody gets a socket before they have proven who they are."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import anyio
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from console.visitor import COOKIE
from engine import LoradeckError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from engine import Engine

LONGEST_FORM = 4096
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in · Loradeck</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/tokens.css"><link rel="stylesheet" href="/static/console.css">
<script src="/static/sign-in.js"></script></head>
<body><main class="sign-in"><form method="post" action="/login" class="card">
<h1>Loradeck</h1>
<p class="muted">Sign in to look after adapters and tenants. An admin makes accounts; programs use API keys.</p>
<p class="fault" role="alert">{fault}</p>
<label>Name<input name="name" value="{name}" autocomplete="username" required autofocus></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button class="btn primary" type="submit">Sign in</button>
</form></main></body></html>"""


def add_login(engine: Engine, app: FastAPI) -> None:
    """``/login`` and ``/logout``."""

    @app.get("/login", include_in_schema=False)
    async def form() -> Response:
        return _page()

    @app.post("/login", include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        fields = parse_qs((await request.body())[:LONGEST_FORM].decode("utf-8", "replace"))
        name, password = (fields.get(key, [""])[0] for key in ("name", "password"))
        try:
            token = await anyio.to_thread.run_sync(engine.tenants.access.sign_in, name, password, "console")
        except LoradeckError as refusal:
            return _page(refusal.message, name, status=refusal.status)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=request.url.scheme == "https", max_age=43200)
        return answer

    @app.post("/logout", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        engine.tenants.access.sign_out(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer


def _page(fault: str = "", name: str = "", *, status: int = 200) -> Response:
    return HTMLResponse(PAGE.format(fault=escape(fault), name=escape(name)), status, {"cache-control": "no-store"})
