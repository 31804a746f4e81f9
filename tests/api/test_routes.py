"""Every route is known and classified; what is no route is JSON; names are ids."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute, Mount

from tests.api.scripted_engine import ScriptedEngine

CHAT = {"model": "A", "messages": [{"role": "user", "content": "hi"}]}

ROUTES: dict[tuple[str, str], tuple[str, int]] = {
    # (method, path): (who may call it once there are accounts, status of the bare call in local mode)
    ("GET", "/health"): ("anyone", 200),
    ("GET", "/metrics"): ("overseer", 200),
    ("POST", "/v1/chat/completions"): ("tenant", 400),
    ("POST", "/v1/completions"): ("tenant", 400),
    ("GET", "/v1/models"): ("tenant", 200),
    ("GET", "/v1/models/{model:path}"): ("tenant", 404),
    ("POST", "/v1/load_lora_adapter"): ("operator", 400),
    ("POST", "/v1/unload_lora_adapter"): ("operator", 400),
    ("GET", "/api/snapshot"): ("viewer", 200),
    ("GET", "/api/fairness"): ("viewer", 200),
    ("GET", "/api/events"): ("viewer", 200),
    ("GET", "/api/steps"): ("overseer", 200),
    ("GET", "/api/adapters"): ("viewer", 200),
    ("POST", "/api/adapters"): ("operator", 400),
    ("GET", "/api/adapters/{ref:path}"): ("viewer", 404),
    ("POST", "/api/adapters/{ref:path}/warm"): ("operator", 404),
    ("POST", "/api/adapters/{ref:path}/pin"): ("operator", 404),
    ("POST", "/api/adapters/{ref:path}/unpin"): ("operator", 404),
    ("POST", "/api/adapters/{ref:path}/evict"): ("operator", 404),
    ("POST", "/api/session"): ("anyone", 400),
    ("GET", "/api/session"): ("viewer", 200),
    ("DELETE", "/api/session"): ("viewer", 204),
    ("GET", "/api/tenants"): ("viewer", 200),
    ("POST", "/api/tenants"): ("chief", 400),
    ("PATCH", "/api/tenants/{tenant}"): ("chief", 400),
    ("DELETE", "/api/tenants/{tenant}"): ("chief", 404),
    ("GET", "/api/tenants/{tenant}/limits"): ("viewer", 404),
    ("PUT", "/api/tenants/{tenant}/limits"): ("chief", 400),
    ("GET", "/api/users"): ("admin", 200),
    ("POST", "/api/users"): ("admin", 400),
    ("PATCH", "/api/users/{name}"): ("admin", 400),
    ("DELETE", "/api/users/{name}"): ("admin", 404),
    ("GET", "/api/keys"): ("viewer", 200),
    ("POST", "/api/keys"): ("admin", 400),
    ("POST", "/api/keys/{key}/rotate"): ("admin", 404),
    ("POST", "/api/keys/{key}/revoke"): ("admin", 404),
    ("GET", "/api/keys/{key}/limits"): ("viewer", 404),
    ("PUT", "/api/keys/{key}/limits"): ("admin", 400),
    ("GET", "/api/usage"): ("tenant", 200),
    ("POST", "/api/imports"): ("operator", 400),
    ("POST", "/api/uploads"): ("operator", 400),
    ("GET", "/api/operations"): ("viewer", 200),
    ("GET", "/api/operations/{operation}"): ("viewer", 404),
    ("GET", "/api/operations/{operation}/rows"): ("viewer", 404),
    ("GET", "/api/operations/{operation}/errors.csv"): ("viewer", 404),
    ("POST", "/api/operations/{operation}/cancel"): ("operator", 404),
    ("POST", "/api/operations/{operation}/resume"): ("operator", 404),
    ("POST", "/api/operations/{operation}/retry"): ("operator", 404),
    ("GET", "/api/adapters/{ref:path}/report"): ("viewer", 404),
    ("GET", "/api/adapters/{ref:path}/versions"): ("viewer", 404),
    ("POST", "/api/adapters/{ref:path}/retire"): ("operator", 404),
    ("POST", "/api/adapters/{ref:path}/archive"): ("operator", 404),
    ("DELETE", "/api/adapters/{ref:path}/archive"): ("admin", 404),
    ("POST", "/api/adapters/{ref:path}/restore"): ("operator", 404),
    ("GET", "/api/aliases"): ("viewer", 200),
    ("GET", "/api/aliases/{name:path}/history"): ("viewer", 404),
    ("POST", "/api/aliases/{name:path}/move"): ("operator", 400),
    ("POST", "/api/aliases/{name:path}/rollback"): ("operator", 404),
    ("POST", "/api/aliases/{name:path}/canary"): ("operator", 400),
    ("POST", "/api/aliases/{name:path}/promote"): ("operator", 404),
    ("GET", "/api/schedules"): ("viewer", 200),
    ("POST", "/api/schedules"): ("operator", 400),
    ("PUT", "/api/schedules/{key}"): ("operator", 400),
    ("DELETE", "/api/schedules/{key}"): ("operator", 400),
    ("GET", "/api/gate"): ("viewer", 200),
    ("PUT", "/api/gate"): ("admin", 400),
    ("GET", "/api/audit"): ("viewer", 200),
    ("POST", "/api/audit/{key}/undo"): ("operator", 400),
    ("GET", "/api/bases"): ("viewer", 200),
    ("GET", "/api/bases/preview"): ("operator", 404),
    ("POST", "/api/bases/reregister"): ("operator", 400),
}
KEYS: list[dict[str, str]] = [
    {},
    {"authorization": "Bearer sk-any"},
    {"authorization": "bearer x"},
    {"authorization": "Basic eA=="},
    {"x-api-key": "x"},
]


def routes_of(routes: list[BaseRoute], prefix: str = "") -> set[tuple[str, str]]:
    """(method, path) of every route, those of mounted applications included."""
    found: set[tuple[str, str]] = set()
    for context in iter_route_contexts(routes):
        path = f"{prefix}{context.path}"
        if isinstance(context.route, Mount):
            inner: Any = context.route.app
            while not hasattr(inner, "routes"):
                inner = inner.app
            found |= routes_of(inner.routes, path)
        elif isinstance(context.route, APIRoute):
            found |= {(method, path) for method in context.route.methods}
        else:
            found.add((type(context.route).__name__, path))
    return found


def test_every_route_is_classified(app: FastAPI) -> None:
    """A new route fails here until somebody has said who may call it (D06)."""
    assert routes_of(app.routes) == set(ROUTES)


@pytest.mark.parametrize("headers", KEYS)
async def test_any_key_or_none_is_the_same_in_local_mode(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """On loopback an API key is not looked at, whatever its spelling (D06)."""
    for (method, path), (_, status) in ROUTES.items():
        response = await http.request(method, re.sub(r"\{[^}]*\}", "nope", path), headers=headers)
        assert response.status_code == status, (method, path)
    assert (await http.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nope", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/api/nope", 404, "not_found"),
        ("GET", "/nope", 404, "not_found"),
        ("GET", "//v1/models", 404, "not_found"),
        ("GET", "/V1/models", 404, "not_found"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
        ("POST", "/chat/completions", 404, "not_found"),
        ("POST", "/invocations", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/v1/openapi.json", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/models", 405, "method_not_allowed"),
        ("PUT", "/api/adapters", 405, "method_not_allowed"),
        ("POST", "/api/adapters/A/melt", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
    ],
)
async def test_what_is_no_route_is_json(address: str, method: str, path: str, status: int, code: str) -> None:
    """Unknown paths and methods are OpenAI-shaped errors, never a redirect or a page."""
    async with httpx.AsyncClient() as client:
        response = await client.request(method, f"{address}{path}")
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", code)


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/v1", "/v1/nope", "/api/adapters/nope", "/v1/completions", "/api/audit"])
async def test_head_is_get_without_its_body(address: str, http: httpx.AsyncClient, path: str) -> None:
    """The same status and type, refusals too, and no body, whatever server is in front."""
    async with httpx.AsyncClient() as client:
        for shown in (f"{address}{path}", path):
            asked = http if shown == path else client
            got, head = await asked.get(shown), await asked.head(shown)
            assert (head.status_code, head.content) == (got.status_code, b"")
            assert head.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize("path", ["/v1", "/api", "/v1/", "/api/nope", "/v1/nope/x", "/health", "/metrics", "/v1/models", "/api/adapters"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
async def test_a_console_answers_for_none_of_our_paths(app: FastAPI, http: httpx.AsyncClient, method: str, path: str) -> None:
    """With an application of pages mounted at ``/``: unknown paths and methods of ours are JSON all the same; its own paths are its own."""
    app.mount("/", HTMLResponse("<h1>A page</h1>", 404))
    assert (await http.request(method, "/v2")).headers["content-type"].startswith("text/html")
    response = await http.request(method, path)
    is_served = method in {"GET", "HEAD"} and path in {"/health", "/metrics", "/v1/models", "/api/adapters"}
    assert response.headers["content-type"].startswith("text/plain" if is_served and path == "/metrics" else "application/json")
    assert is_served == (response.status_code == 200)
    if not is_served and method != "HEAD":
        assert response.json()["error"]["code"] in {"not_found", "method_not_allowed", "invalid_json"}


@pytest.mark.parametrize("ref", ["/etc", "../../x", "a/../../x", "%2e%2e/", "a%5c..%5cb", "a%00", "x" * 4096, "A%20", "a"])
async def test_refs_are_ids(address: str, ref: str) -> None:
    """Nothing that looks like a path reaches a folder: a ref is a name that is known to the letter, or 404 (D04)."""
    async with httpx.AsyncClient() as client:
        read = await client.get(f"{address}/api/adapters/{ref}")
        moved = await client.post(f"{address}/api/adapters/{ref}/evict")
    assert {read.status_code, moved.status_code} <= {404, 405}
    assert read.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8080", 200),
        ("http://127.0.0.1:3000", 200),
        ("http://[::1]:8080", 200),
        ("http://app.localhost", 200),
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("http://192.168.1.5", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
async def test_pages_of_other_sites_stay_out(http: httpx.AsyncClient, engine: ScriptedEngine, origin: str, status: int) -> None:
    """Without accounts, a browser on this machine must not lend its reach to any page it shows."""
    for path in ("/v1/chat/completions", "/api/adapters/A/evict"):
        response = await http.post(path, json=CHAT, headers={"origin": origin, "content-type": "text/plain"})
        assert response.status_code == status
    assert len(engine.submitted) == (status == 200)
    assert engine.rows["A"].tier == ("host" if status == 200 else "device")


async def test_our_own_bug_is_json_too(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """An error nobody foresaw is a 500 without its inside, and the next request is answered."""
    plain = engine.resolve
    engine.resolve = lambda *_: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    response = await http.post("/v1/chat/completions", json=CHAT)
    engine.resolve = plain  # type: ignore[method-assign]
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_fault"
    assert "division" not in response.text
    assert (await http.post("/v1/chat/completions", json=CHAT)).status_code == 200
