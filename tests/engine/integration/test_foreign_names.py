"""What belongs to another tenant cannot be told from what does not exist, through every door a tenant has (D06, D07)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import openai
import pytest
import sqlalchemy
from openai.types.chat import ChatCompletionMessageParam
from sqlalchemy import event

from engine.ids import SHARED_TENANT, TenantId
from tests import tiny
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import PASSWORD, Doors, opened

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
CHAT = {"messages": MESSAGES, "max_tokens": 2}
WINDOWS = ["snapshot", "fairness", "events", "adapters", "aliases", "tenants", "keys", "users", "usage", "audit", "operations"]
CHANGING = {"date", "x-request-id", "content-length"}
"""Headers that differ between any two answers; the length by that of the echoed name."""
OPERATOR_CALLS = [
    ("GET", "/api/adapters/{}", None),
    ("POST", "/api/adapters/{}/warm", {}),
    ("POST", "/api/adapters/{}/pin", {}),
    ("POST", "/api/adapters/{}/unpin", {}),
    ("POST", "/api/adapters/{}/evict", {}),
    ("DELETE", "/api/adapters/{}", None),
    ("POST", "/v1/unload_lora_adapter", {"lora_name": "{}"}),
    ("GET", "/api/adapters/{}/report", None),
    ("GET", "/api/adapters/{}/report?version=1", None),
    ("GET", "/api/adapters/{}@1/report", None),
    ("GET", "/api/adapters/{}/versions", None),
    ("POST", "/api/adapters/{}/retire", {}),
    ("POST", "/api/adapters/{}/archive", {}),
    ("POST", "/api/adapters/{}/restore", {}),
    ("POST", "/api/adapters/{}@1/restore", {}),
    ("POST", "/api/adapters/{}/warm?preview=1", {}),
    ("GET", "/api/aliases/{}/history", None),
    ("POST", "/api/aliases/acme-bot/move", {"version": "{}"}),
    ("POST", "/api/aliases/acme-bot/canary", {"version": "{}", "share": 0.05}),
    ("POST", "/api/aliases/{}/move", {"version": "{}"}),
    ("POST", "/api/aliases/{}/rollback", {}),
    ("POST", "/api/aliases/{}/canary", {"version": "{}", "share": 0.05}),
    ("POST", "/api/aliases/{}/promote", {}),
    ("GET", "/api/adapters?filter={}", None),
    ("GET", "/api/aliases?q={}", None),
    ("GET", "/api/audit?object={}", None),
    ("POST", "/api/imports", {"prefix": "{}", "dry_run": True}),
    ("GET", "/api/usage?tenant={}", None),
]
ADMIN_CALLS = [
    *(("GET", f"/api/{path}?tenant={{}}", None) for path in ("adapters", "aliases", "audit", "bases", "gate", "schedules", "usage")),
    ("GET", "/api/adapters/acme-bot/report?tenant={}", None),
    ("GET", "/api/tenants/{}/limits", None),
    ("PUT", "/api/tenants/{}/limits", {"max_running": 1}),
    ("PATCH", "/api/tenants/{}", {"suspended": True}),
    ("DELETE", "/api/tenants/{}", None),
    ("POST", "/api/adapters", {"source": "/nowhere", "alias": "x", "tenant": "{}"}),
    ("POST", "/api/schedules", {"alias": "rival-bot", "trigger": "sign_in", "tenant": "{}"}),
    ("POST", "/api/keys", {"label": "k", "tenant": "{}"}),
    ("POST", "/api/users", {"name": "bob", "password": PASSWORD, "role": "viewer", "tenant": "{}"}),
    ("PUT", "/api/gate", {"tenant": "{}", "min_score": 0.5}),
]
TENANT_CALLS = [
    ("GET", "/v1/models/{}", None),
    ("POST", "/v1/chat/completions", CHAT | {"model": "{}"}),
    ("POST", "/v1/chat/completions", CHAT | {"model": "{}", "stream": True}),
    ("POST", "/v1/completions", {"model": "{}", "prompt": "x", "max_tokens": 2}),
]


def answer(response: httpx.Response, name: str) -> tuple[int, str, dict[str, str]]:
    """All that can be seen of it, but for the echoed name and what differs each time."""
    text = response.text.replace(name, "?").replace(response.headers["x-request-id"], "")
    return response.status_code, text, {key: value for key, value in response.headers.items() if key not in CHANGING}


def filled(body: object, name: str) -> object:
    """The body about this name."""
    return {key: name if value == "{}" else value for key, value in body.items()} if isinstance(body, dict) else body


@contextmanager
def catalog_reads() -> Iterator[list[str]]:
    """Statements on the registry's adapters and aliases meanwhile."""
    seen: list[str] = []

    def note(*call: object) -> None:
        text = str(call[2]).lower()
        if "adapter" in text or "alias" in text:
            seen.append(text)

    event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", note)


async def seen_of(doors: Doors, version: str) -> list[str]:
    """What the log holds on a version, for an admin of all."""
    events = (await doors.call("GET", "/api/events?limit=1000", doors.key(None, "admin"))).json()["events"]
    return [str(event) for event in events if version in str(event)]


async def three_tenants(doors: Doors) -> tuple[TenantId, TenantId]:
    """Two tenants with an adapter each, and one for all."""
    acme, rival = doors.tenant("acme"), doors.tenant("rival")
    for name, tenant in (("acme-bot", acme), ("rival-bot", rival), ("everyone", SHARED_TENANT)):
        await doors.served.add(name, tiny.AdapterRecipe(seed=len(name)), tenant=tenant)
    return acme, rival


async def refusal(client: openai.AsyncOpenAI, name: str) -> list[tuple[int, str]]:
    """What each call of the client raises for a name, but for the name."""
    calls = (
        client.models.retrieve(name),
        client.completions.create(model=name, prompt="hi", max_tokens=2),
        client.chat.completions.create(model=name, messages=MESSAGES, max_tokens=2),
        client.chat.completions.create(model=name, messages=MESSAGES, max_tokens=2, stream=True),
    )
    told = []
    for call in calls:
        with pytest.raises(openai.NotFoundError) as caught:
            await call
        told.append((caught.value.status_code, str(caught.value).replace(name, "?")))
    return told


async def test_three_keys_with_the_official_client(engine: Make) -> None:
    """Two tenants list and call their own and the shared one; an operator of all has everything."""
    async with opened(engine()) as doors:
        acme, rival = await three_tenants(doors)
        reach = {
            doors.key(acme): {"acme-bot", "everyone"},
            doors.key(rival): {"rival-bot", "everyone"},
            doors.key(None, "operator"): {"acme-bot", "rival-bot", "everyone"},
        }
        for key, own in reach.items():
            client = doors.openai(key)
            listed = {card.id async for card in client.models.list()}
            assert listed == own | {doors.served.engine.base_name}
            for name in ("acme-bot", "rival-bot", "everyone"):
                if name in own:
                    assert (await client.models.retrieve(name)).id == name
                    assert (await client.completions.create(model=name, prompt="hi", max_tokens=2)).model == name
                    said = await client.chat.completions.create(model=name, messages=MESSAGES, max_tokens=2)
                    streamed = await client.chat.completions.create(model=name, messages=MESSAGES, max_tokens=2, stream=True)
                    assert {said.model, *[chunk.model async for chunk in streamed]} == {name}
                    continue
                told = [await refusal(client, each) for each in (name, "nobody-bot")]
                assert told[0] == told[1]


async def test_anothers_is_as_unknown_as_nothing(engine: Make) -> None:
    """Alias and version of another, and a made-up name: the same bytes and headers, no read of the registry, no load, no event."""
    async with opened(engine()) as doors:
        acme, _ = await three_tenants(doors)
        theirs = str(doors.served.entry("rival-bot").record.id)
        before = doors.served.entry("rival-bot").tier, await seen_of(doors, theirs)
        names = ("rival-bot", theirs, "nobody-bot", "a" * len(theirs))
        doors.tenants.users.add("ana", PASSWORD, role="operator", tenant=acme)
        ana = (await doors.call("POST", "/api/session", "", {"name": "ana", "password": PASSWORD})).json()["token"]
        calls = [(doors.key(acme), call) for call in TENANT_CALLS] + [(doors.key(acme, "operator"), call) for call in OPERATOR_CALLS]
        calls += [(ana, call) for call in OPERATOR_CALLS if call[1].startswith("/api/")]
        for key, (method, path, body) in calls:
            told = []
            for name in names:
                with catalog_reads() as reads:
                    response = await doors.call(method, path.format(name), key, filled(body, name))
                told.append((answer(response, name), len(reads)))
            assert all(each == told[0] for each in told), (method, path, told)
        assert (doors.served.entry("rival-bot").tier, await seen_of(doors, theirs)) == before


async def test_a_tenants_windows_show_its_own(engine: Make) -> None:
    """Neither snapshot, events, fairness, lists nor the log name another tenant or its adapter; metrics need a role for all."""
    async with opened(engine()) as doors:
        acme, rival = await three_tenants(doors)
        await doors.openai(doors.key(rival)).completions.create(model="rival-bot", prompt="hi", max_tokens=2)
        theirs = str(doors.served.entry("rival-bot").record.id)
        keys = {role: doors.key(acme, role) for role in ("viewer", "operator", "admin")}
        for path in WINDOWS:
            for role, key in keys.items():
                response = await doors.call("GET", f"/api/{path}", key)
                assert response.status_code in {200, 403}, (path, role)
                assert not [word for word in ("rival", theirs) if word in response.text], (path, role)
        for key in (doors.key(acme), *keys.values()):
            refused = await doors.call("GET", "/metrics", key)
            assert (refused.status_code, "rival" in refused.text) == (403, False)
        metrics = (await doors.call("GET", "/metrics", doors.key(None, "viewer"))).text
        assert 'tenant="rival"' in metrics
        for series in ("fairness_jain", "tenant_slowdown", "evictions_caused", "stall_seconds_caused"):
            assert series in metrics, series


async def test_a_foreign_name_is_free_to_load_and_unload(engine: Make) -> None:
    """``load_lora_adapter`` under another's name registers one's own, as under any; unloading it again leaves the other's alone."""
    async with opened(engine()) as doors:
        acme, rival = await three_tenants(doors)
        folder, key = str(doors.served.folder("acme-too", tiny.AdapterRecipe(seed=77))), doors.key(acme, "operator")
        theirs = doors.served.host.catalog.resolve("rival-bot", rival)
        before = await seen_of(doors, theirs.adapter if theirs else "")
        steps: list[tuple[str, dict[str, object]]] = [
            ("unload_lora_adapter", {"lora_name": "{}"}),
            ("load_lora_adapter", {"lora_name": "{}", "lora_path": "/nowhere"}),
            ("load_lora_adapter", {"lora_name": "{}", "lora_path": folder}),
            ("load_lora_adapter", {"lora_name": "{}", "lora_path": folder, "load_inplace": True}),
            ("unload_lora_adapter", {"lora_name": "{}"}),
            ("unload_lora_adapter", {"lora_name": "{}"}),
        ]
        told = [
            [answer(await doors.call("POST", f"/v1/{path}", key, filled(body, name)), name) for path, body in steps]
            for name in ("rival-bot", "nobody-bot")
        ]
        assert told[0] == told[1]
        assert [status for status, *_ in told[0]] == [404, 403, 200, 200, 200, 404]
        assert doors.served.host.catalog.resolve("rival-bot", rival) == theirs
        assert await seen_of(doors, theirs.adapter if theirs else "") == before
        assert (await doors.openai(doors.key(rival)).completions.create(model="rival-bot", prompt="hi", max_tokens=2)).model == "rival-bot"


async def test_a_foreign_tenant_is_as_unknown_as_none(engine: Make) -> None:
    """An admin of one tenant who names another is answered as for a tenant that nobody has made."""
    async with opened(engine()) as doors:
        acme, rival = await three_tenants(doors)
        key = doors.key(acme, "admin")
        for method, path, body in ADMIN_CALLS:
            names = (str(rival), "nobody")
            told = [answer(await doors.call(method, path.format(name), key, filled(body, name)), name) for name in names]
            assert told[0] == told[1], (method, path, told)


async def test_a_number_of_anothers_is_as_unknown_as_none(engine: Make) -> None:
    """Lines of the log, keys, schedules and operations of another tenant are answered like those that nobody has."""
    async with opened(engine()) as doors:
        acme, rival = await three_tenants(doors)
        theirs, mine = doors.key(rival, "admin"), doors.key(acme, "admin")
        scheduled = await doors.call("POST", "/api/schedules", theirs, {"alias": "rival-bot", "trigger": "sign_in"})
        folder = str(doors.served.folder("theirs"))
        began = await doors.call("POST", "/api/imports", theirs, {"prefix": folder, "alias": "rival-too"})
        line = doors.served.engine.audit.lines(tenant=rival, limit=1)[0].key
        own = (await doors.call("GET", "/api/keys", theirs)).json()["keys"][0]["id"]
        wish = {"alias": "acme-bot", "trigger": "sign_in"}
        wishes = [(await doors.call("POST", "/api/schedules", mine, wish | {"alias": name})).json() for name in ("rival-bot", "nobody-bot")]
        assert wishes[0] | {"alias": "", "key": 0, "created_unix": 0} == wishes[1] | {"alias": "", "key": 0, "created_unix": 0}
        calls: list[tuple[str, str, object, object, object]] = [
            ("POST", "/api/audit/{}/undo", {}, line, 987654),
            ("PUT", "/api/schedules/{}", wish, scheduled.json()["key"], 987654),
            ("DELETE", "/api/schedules/{}", None, scheduled.json()["key"], 987654),
            *[("POST", f"/api/keys/{{}}/{verb}", {}, own, "k-nobody") for verb in ("rotate", "revoke")],
            ("GET", "/api/keys/{}/limits", None, own, "k-nobody"),
            ("PUT", "/api/keys/{}/limits", {"max_running": 1}, own, "k-nobody"),
            ("GET", "/api/operations/{}", None, began.json()["id"], "nobody"),
            ("GET", "/api/operations/{}/rows", None, began.json()["id"], "nobody"),
            *[("POST", f"/api/operations/{{}}/{verb}", {}, began.json()["id"], "nobody") for verb in ("cancel", "resume", "retry")],
        ]
        for method, path, body, there, nowhere in calls:
            told = [answer(await doors.call(method, path.format(each), mine, body), str(each)) for each in (there, nowhere)]
            assert told[0] == told[1], (path, told)
            assert told[0][0] == 404, (path, told)
