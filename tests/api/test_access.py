"""Default deny: every route of the application against every kind of caller (D06)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI

from engine.api.app import build_app
from engine.caller import Role
from engine.ids import SHARED_TENANT, TenantId
from engine.settings import Settings
from tests.api.scripted_engine import ScriptedEngine
from tests.api.test_routes import ROUTES, routes_of

ACME, RIVAL = TenantId("acme"), TenantId("rival")
PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test
CHAT = {"model": "A", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "nope", "prompt": "x"},
    "/v1/load_lora_adapter": {"lora_name": "n", "lora_path": "/nowhere"},
    "/v1/unload_lora_adapter": {"lora_name": "n"},
    "/api/adapters": {"source": "/nowhere", "alias": "n"},
    "/api/session": {"name": "nobody", "password": "x"},
    "/api/tenants": {"id": "NOT A NAME"},
    "/api/tenants/{tenant}": {"name": "n"},
    "/api/users": {"name": "n", "password": "short", "role": "viewer", "tenant": "acme"},
    "/api/users/{name}": {"disabled": True},
    "/api/keys": {"name": "n", "tenant": "acme", "expires_unix": 1.0},
    "/api/tenants/{tenant}/limits": {},
    "/api/keys/{key}/limits": {},
}
RANK = {"viewer": 1, "operator": 2, "admin": 3}
CALLERS: dict[str, tuple[Role | None, TenantId | None]] = {
    "tenant": (None, ACME),
    "viewer of one": ("viewer", ACME),
    "operator of one": ("operator", ACME),
    "admin of one": ("admin", ACME),
    "viewer": ("viewer", None),
    "operator": ("operator", None),
    "admin": ("admin", None),
}


def may(who: str, needed: str) -> bool:
    """The table: whether a caller gets past the doors of a route."""
    role, tenant = CALLERS[who]
    rank = RANK.get(role or "", 0)
    if needed in {"anyone", "tenant"}:
        return True
    if needed in {"overseer", "chief"}:
        return tenant is None and rank >= (1 if needed == "overseer" else 3)
    return rank >= RANK[needed]


class Doors:
    """The application in network mode, with an admin, tenants and keys."""

    def __init__(self, engine: ScriptedEngine, client: httpx.AsyncClient) -> None:
        self.engine, self.client = engine, client
        engine.tenants.users.add("root", PASSWORD, role="admin")
        for tenant in (ACME, RIVAL):
            engine.tenants.create(tenant)
        self.keys = {who: self.key(tenant, role) for who, (role, tenant) in CALLERS.items()}

    def key(self, tenant: TenantId | None, role: Role | None = None, **options: Any) -> str:
        """A new key's secret."""
        return self.engine.tenants.keys.create("k", tenant=tenant, role=role, **options).token

    async def call(self, method: str, path: str, key: str | None, **options: Any) -> httpx.Response:
        """One request with a key, or with an ``Authorization`` header as it is."""
        headers = {} if key is None else {"authorization": key if " " in key else f"Bearer {key}"}
        url = "http://loradeck.example" + re.sub(r"\{[^}]*\}", "nope", path)
        return await self.client.request(method, url, headers=headers, **options)


@pytest.fixture
async def doors(tokenizer_folder: Path, tmp_path: Path) -> AsyncIterator[Doors]:
    """Listening on all addresses."""
    engine = ScriptedEngine(tokenizer_folder, Settings(data=tmp_path, host="0.0.0.0"))
    engine.start()
    app = build_app(engine)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://loradeck.example") as client:
        yield Doors(engine, client)
    engine.stop()


@pytest.mark.parametrize("key", [None, "Basic eA==", "bearer", "Bearer  x", "Bearer sk-000000000000-" + "0" * 64, "Token x", "Bearer ls-x"])
async def test_nothing_is_open_but_what_says_so(doors: Doors, key: str | None) -> None:
    """Without a key that holds each route, method, spelling and unknown path is 401, but for health and signing in."""
    for method, path in ROUTES:
        for shown in (path, f"{path}/", f"/{path}"):
            for verb in (method, "HEAD", "OPTIONS", "GET", "POST"):
                if shown == "/health" or ROUTES.get((verb, shown), ("",))[0] == "anyone":
                    continue
                response = await doors.call(verb, shown, key, json={})
                assert response.status_code == 401, (verb, shown)
                assert response.headers["www-authenticate"] == "Bearer"
    for path in ("/", "/docs", "/adapters", "/_nicegui_ws/socket.io/", "/static/x.css", "/v1", "/V1/models", "/v1/../api/users", "/api"):
        assert (await doors.call("GET", path, key)).status_code == 401, path
    assert (await doors.call("GET", "/health", key)).status_code == 200
    assert (await doors.call("POST", "/api/session", key, json=BODIES["/api/session"])).json()["error"]["code"] == "wrong_credentials"


async def test_each_role_gets_what_it_may(doors: Doors) -> None:
    """The table of routes by roles: past the doors or 403, and nothing between."""
    for (method, path), (needed, _) in ROUTES.items():
        for who in CALLERS:
            if needed == "anyone":
                continue
            body = {} if method == "GET" else {"json": BODIES.get(path, {})}
            status = (await doors.call(method, path, doors.keys[who], **body)).status_code
            assert (status in {401, 403}) != may(who, needed) or (status == 403 and path in OUTSIDE), (who, method, path, status)


OUTSIDE = {"/api/adapters", "/v1/load_lora_adapter"}
"""Here a source outside the allowed ones is 403 as well."""


async def test_a_new_route_has_to_be_classified(doors: Doors) -> None:
    """In network mode there are the same routes as in local mode."""
    app: FastAPI = build_app(doors.engine)  # type: ignore[arg-type]
    assert routes_of(app.routes) == set(ROUTES)


async def test_keys_end(doors: Doors) -> None:
    """Expired, revoked, rotated and of a suspended tenant: refused from the next request on, live."""
    tenants = doors.engine.tenants
    made = tenants.keys.create("k", tenant=ACME)
    assert (await doors.call("GET", "/v1/models", made.token)).status_code == 200
    fresh = tenants.keys.rotate(made.record.id, overlap_s=0.2)
    assert {(await doors.call("GET", "/v1/models", key)).status_code for key in (made.token, fresh.token)} == {200}
    await asyncio.sleep(0.25)
    assert (await doors.call("GET", "/v1/models", made.token)).status_code == 401
    tenants.suspend(ACME)
    assert (await doors.call("GET", "/v1/models", fresh.token)).json()["error"]["code"] == "tenant_suspended"
    tenants.resume(ACME)
    tenants.keys.revoke(fresh.record.id)
    assert (await doors.call("GET", "/v1/models", fresh.token)).status_code == 401
    assert (await doors.call("GET", "/v1/models", fresh.token[:-1] + "0")).status_code == 401


async def test_the_last_use_is_told_at_once(doors: Doors) -> None:
    """A key that was used and a person who signed in are listed with when, not only after a restart."""
    tenants = doors.engine.tenants
    made = tenants.keys.create("k", tenant=ACME)
    assert tenants.directory.keys[made.record.id].used_unix is None
    await doors.call("GET", "/v1/models", made.token)
    await doors.call("POST", "/api/session", None, json={"name": "root", "password": PASSWORD})
    tenants.directory.store.write(lambda _: None)  # in order after what was left for later
    assert next(key for key in tenants.keys.list() if key.id == made.record.id).used_unix is not None
    assert [user.signed_in_unix is not None for user in tenants.users.list()] == [True]


async def test_an_allow_list_is_the_whole_world(doors: Doors) -> None:
    """A key that names its models lists and calls these, and others do not exist."""
    key = doors.key(None, models=("team/B", "tiny"))
    listed = (await doors.call("GET", "/v1/models", key)).json()["data"]
    assert {model["id"] for model in listed} == {"team/B", "tiny"}
    assert (await doors.call("POST", "/v1/chat/completions", key, json={**CHAT, "model": "A"})).status_code == 404
    assert (await doors.call("POST", "/v1/chat/completions", key, json={**CHAT, "model": "team/B"})).status_code == 200


async def test_a_session_is_for_the_api_only(doors: Doors) -> None:
    """Name and password give a token for ``/api``; it opens no ``/v1``, and signing out ends it."""
    answer = await doors.call("POST", "/api/session", None, json={"name": "root", "password": PASSWORD})
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert (await doors.call("GET", "/api/session", token)).json()["role"] == "admin"
    assert (await doors.call("GET", "/v1/models", token)).status_code == 401
    assert (await doors.call("GET", "/metrics", token)).status_code == 401
    console = doors.engine.tenants.access.sign_in("root", PASSWORD, "console")
    for path in ("/api/users", "/v1/models", "/metrics"):
        assert (await doors.call("GET", path, console)).status_code == 401
        assert (await doors.client.get(path, headers={"cookie": f"loradeck_session={console}"})).status_code == 401
    assert (await doors.call("DELETE", "/api/session", token)).status_code == 204
    assert (await doors.call("GET", "/api/session", token)).status_code == 401


async def test_an_admin_of_one_tenant_stays_in_it(doors: Doors) -> None:
    """Another tenant's keys, users and usage do not exist for it, and it cannot raise its own limits or make itself more."""
    theirs = doors.engine.tenants.keys.create("k", tenant=RIVAL).record.id
    doors.engine.tenants.users.add("rita", PASSWORD, role="viewer", tenant=RIVAL)
    key = doors.keys["admin of one"]
    unknown = await doors.call("POST", "/api/keys/nope/revoke", key)
    known = await doors.call("POST", f"/api/keys/{theirs}/revoke", key)
    assert unknown.status_code == known.status_code == 404
    assert unknown.text.replace("nope", theirs) == known.text
    for method, path, body in (
        ("PATCH", "/api/users/rita", {"disabled": True}),
        ("DELETE", "/api/users/rita", None),
        ("GET", "/api/tenants/rival/limits", None),
        ("GET", "/api/usage?tenant=rival", None),
    ):
        assert (await doors.call(method, path, key, json=body)).status_code == 404, path
    told = {(await doors.call("GET", f"/api/usage?tenant={name}", key)).text.replace(name, "?") for name in ("rival", "madeup")}
    assert told == {(await doors.call("GET", "/api/tenants/madeup/limits", key)).text.replace("madeup", "?")}
    for method, path, body in (
        ("POST", "/api/keys", {"tenant": "rival"}),
        ("POST", "/api/keys", {"all_tenants": True}),
        ("POST", "/api/users", {"name": "eve", "password": PASSWORD, "role": "admin"}),
        ("PUT", "/api/tenants/acme/limits", {}),
        ("POST", "/api/adapters", {"source": "/allowed/x", "alias": "x", "tenant": "rival"}),
    ):
        assert (await doors.call(method, path, key, json=body)).status_code == 403, path
    assert "rival" not in (await doors.call("GET", "/api/keys", key)).text
    assert "rita" not in (await doors.call("GET", "/api/users", key)).text
    assert [each["id"] for each in (await doors.call("GET", "/api/tenants", key)).json()["tenants"]] == ["acme"]


async def test_a_change_that_is_refused_changes_nothing(doors: Doors) -> None:
    """With a password that will not do, the role of the same body is not given either."""
    tenants, key = doors.engine.tenants, doors.keys["admin"]
    tenants.users.add("rita", PASSWORD, role="viewer", tenant=RIVAL)
    refused = await doors.call("PATCH", "/api/users/rita", key, json={"role": "admin", "tenant": RIVAL, "password": "short"})
    assert refused.status_code == 400
    assert tenants.directory.users["rita"].role == "viewer"


async def test_secrets_are_shown_once_and_kept_nowhere(doors: Doors, tmp_path: Path) -> None:
    """A key's secret is in the answer to its making; not in the list, the audit log or the database."""
    made = (await doors.call("POST", "/api/keys", doors.keys["admin"], json={"name": "ci", "tenant": "acme", "role": None})).json()
    assert made["key"].startswith(f"{made['prefix']}-")
    assert (await doors.call("GET", "/v1/models", made["key"])).status_code == 200
    secret = made["key"].rpartition("-")[2]
    assert secret not in (await doors.call("GET", "/api/keys", doors.keys["admin"])).text
    doors.engine.tenants.directory.store.close()
    kept = files_in(tmp_path)
    assert made["id"].encode() in kept
    assert secret.encode() not in kept
    assert PASSWORD.encode() not in kept


def files_in(folder: Path) -> bytes:
    """What lies on disk."""
    return b"".join(path.read_bytes() for path in folder.rglob("loradeck.db*"))


async def test_local_mode_ends_with_the_first_admin(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """On loopback everybody is admin until somebody is; from then on keys are needed."""
    assert (await http.get("/api/users")).status_code == 200
    made = await http.post("/api/users", json={"name": "root", "password": PASSWORD, "role": "admin"})
    assert made.status_code == 201
    assert (await http.get("/api/users")).status_code == 401
    assert (await http.post("/v1/chat/completions", json=CHAT)).status_code == 401
    with pytest.raises(Exception, match="last admin"):
        engine.tenants.users.disable("root")


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8080", 200), ("[::1]:80", 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403)]
)
async def test_other_names_of_this_machine(http: httpx.AsyncClient, host: str, status: int) -> None:
    """A name that a foreign site made point here is refused: its pages would act as admin."""
    assert (await http.get("/api/users", headers={"host": host})).status_code == status
    assert (await http.get("/v1/models", headers={"host": host})).status_code == status


@pytest.mark.parametrize("tenant", [ACME, RIVAL])
def test_tenants_with_the_official_client(client: openai.OpenAI, engine: ScriptedEngine, address: str, tenant: TenantId) -> None:
    """Each tenant lists and calls its own and what is shared; another's name is refused as an unknown one is."""
    for number, (alias, owner) in enumerate((("acme/bot", ACME), ("rival/bot", RIVAL), ("everyone", SHARED_TENANT))):
        engine.register(f"/allowed/{number}", alias=alias, tenant=owner)
    engine.tenants.users.add("root", PASSWORD, role="admin")
    engine.tenants.create(tenant)
    key = engine.tenants.keys.create("k", tenant=tenant).token
    mine, other = f"{tenant}/bot", "rival/bot" if tenant == ACME else "acme/bot"
    with openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as own:
        assert {model.id for model in own.models.list()} == {"tiny", mine, "everyone"}
        for name in (mine, "everyone"):
            assert own.chat.completions.create(model=name, messages=[{"role": "user", "content": "hi"}], max_tokens=3).model == name
        told = set()
        for name in (other, str(engine.rows[other].id), "no/such"):
            for ask in (own.models.retrieve, lambda model: own.completions.create(model=model, prompt="x")):
                with pytest.raises(openai.NotFoundError) as refusal:
                    ask(name)
                told.add(refusal.value.response.text.replace(name, "?"))
        assert len(told) == 1
    with pytest.raises(openai.AuthenticationError):
        client.models.list()
