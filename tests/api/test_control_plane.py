"""``/api`` and the LoRA routes of ``/v1``: what is, what happened, and moving adapters."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import httpx
import pytest

from engine.api.schemas import ControlBody
from engine.errors import AdapterRefused
from engine.ids import AdapterId
from engine.snapshot import AdapterRow, EngineSnapshot, MemorySnapshot
from tests.api.scripted_engine import ScriptedEngine

PARTS = (
    "base_bytes",
    "adapters_pinned_bytes",
    "adapters_leased_bytes",
    "adapters_cached_bytes",
    "kv_used_bytes",
    "kv_prefix_bytes",
    "kv_reserved_bytes",
    "workspace_bytes",
    "free_bytes",
    "other_bytes",
)


async def test_snapshot_has_the_promised_names(http: httpx.AsyncClient) -> None:
    """The whole snapshot, by the names it has in the engine; the memory parts add up."""
    body = (await http.get("/api/snapshot")).json()
    assert set(body) == {field.name for field in fields(EngineSnapshot)}
    assert set(body["memory"]) == {field.name for field in fields(MemorySnapshot)}
    assert sum(body["memory"][name] for name in PARTS) == body["memory"]["total_bytes"]
    assert {field.name for field in fields(AdapterRow)} == set(body["adapters"][0])
    assert set(body["requests"]) == {"running", "waiting"}
    assert body["step"] == 7


async def test_events_are_numbered_and_named(http: httpx.AsyncClient) -> None:
    """A reader asks for what came after the last it saw."""
    for alias in ("x", "y"):
        await http.post("/api/adapters", json={"source": f"/allowed/{alias}", "alias": alias})
    body = (await http.get("/api/events")).json()
    assert [(event["number"], event["type"], event["alias"], event["by"]) for event in body["events"]] == [
        (1, "adapter_registered", "x", "local"),
        (2, "adapter_registered", "y", "local"),
    ]
    assert (body["lost"], body["newest"]) == (0, 2)
    after = (await http.get("/api/events?after=1&limit=1")).json()
    assert [event["number"] for event in after["events"]] == [2]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=1.5", "after=٣", "after=" + "9" * 5000, "limit=1001"])
async def test_bad_numbers_in_queries(http: httpx.AsyncClient, query: str) -> None:
    """A query parameter that is no whole number is 400 by name."""
    response = await http.get(f"/api/events?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]


async def test_steps_after(http: httpx.AsyncClient) -> None:
    """Steps that the playground draws, with who was in them."""
    await http.post("/v1/completions", json={"model": "A", "prompt": "hi"})
    steps = (await http.get("/api/steps")).json()["steps"]
    assert steps
    assert set(steps[0]["rows"][0]) == {"request", "index", "phase", "tokens", "adapter", "samples"}
    assert (await http.get(f"/api/steps?after={steps[-1]['step']}")).json() == {"steps": []}


@pytest.fixture
def many(engine: ScriptedEngine) -> None:
    """30 adapters of differing size, use and place."""
    row = engine.rows["A"]
    engine.rows = {
        f"n{number:02}": replace(
            row,
            alias=f"n{number:02}",
            aliases=(f"n{number:02}",),
            id=AdapterId(f"{number:032x}"),
            bytes=1000 - number,
            tier="device" if number % 3 == 0 else "disk",
            pinned=number < 2,
            pin_tier="device" if number < 2 else None,
            last_used_unix=None if number > 5 else float(number),
        )
        for number in range(30)
    }


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    ("query", "total", "names"),
    [
        ("limit=3", 30, ["n00", "n01", "n02"]),
        ("limit=2&offset=29", 30, ["n29"]),
        ("limit=2&offset=99", 30, []),
        ("sort=bytes&limit=2", 30, ["n29", "n28"]),
        ("sort=-alias&limit=2", 30, ["n29", "n28"]),
        ("sort=-last_used_unix&limit=2", 30, ["n05", "n04"]),
        ("sort=last_used_unix&offset=5&limit=2", 30, ["n05", "n06"]),
        ("tier=device&sort=-alias&limit=1", 10, ["n27"]),
        ("pinned=1", 2, ["n00", "n01"]),
        ("pinned=0&limit=1", 28, ["n02"]),
        ("q=N07", 1, ["n07"]),
        ("q=" + f"{9:032x}", 1, ["n09"]),
        ("tenant=other", 0, []),
        ("lifecycle=retired", 0, []),
    ],
)
async def test_adapters_are_paged_filtered_and_sorted(http: httpx.AsyncClient, query: str, total: int, names: list[str]) -> None:
    """The server does it, so that thousands cost a page nothing."""
    body = (await http.get(f"/api/adapters?{query}")).json()
    assert (body["total"], [row["alias"] for row in body["adapters"]]) == (total, names)


@pytest.mark.parametrize("query", ["sort=__class__", "tier=moon", "pinned=maybe", "limit=0x10", "lifecycle=x", "offset=-1"])
async def test_bad_adapter_queries(http: httpx.AsyncClient, query: str) -> None:
    """What cannot be asked is 400 by name."""
    response = await http.get(f"/api/adapters?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]


async def test_register_reports_what_was_found(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """201 with version and report; again 200; a taken alias 409 and never retried; a replacement moves it."""
    created = await http.post("/api/adapters", json={"source": "/allowed/new", "alias": "team/new"})
    body = created.json()
    assert created.status_code == 201
    assert body["report"]["matched"] == 4
    assert body["report"]["warnings"] == ["synthetic"]
    assert (body["id"], body["adapter"]["alias"], body["created"]) == (engine.rows["team/new"].id, "team/new", True)
    assert (await http.post("/api/adapters", json={"source": "/allowed/new", "alias": "team/new"})).status_code == 200
    taken = await http.post("/api/adapters", json={"source": "/allowed/other", "alias": "team/new"})
    assert (taken.status_code, taken.json()["error"]["code"], taken.headers["x-should-retry"]) == (409, "alias_taken", "false")
    moved = await http.post("/api/adapters", json={"source": "/allowed/other", "alias": "team/new", "replace": True})
    assert moved.status_code == 200
    assert engine.rows["team/new"].source == "/allowed/other"
    assert all("AnyIO worker" in name for name in engine.registered_in)


async def test_dry_run_changes_nothing(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """The report without the registration."""
    response = await http.post("/api/adapters", json={"source": "/allowed/new", "alias": "new", "dry_run": True})
    assert (response.status_code, response.json()["dry_run"], response.json()["created"]) == (200, True, False)
    assert "new" not in engine.rows


@pytest.mark.parametrize(
    "alias", ["/etc", "../../x", "a/../../x", "%2e%2e/", "a\\..\\b", "a\0", "x" * 4096, "", "a b", "x\n2026 INFO", "tiny"]
)
@pytest.mark.parametrize("path", ["/api/adapters", "/v1/load_lora_adapter"])
async def test_aliases_are_ids(http: httpx.AsyncClient, engine: ScriptedEngine, alias: str, path: str) -> None:
    """What is no name is refused by name, and nothing is registered (D04, D11)."""
    before = dict(engine.rows)
    body = {"source": "/allowed/x", "alias": alias, "lora_path": "/allowed/x", "lora_name": alias}
    response = await http.post(path, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_alias")
    assert engine.rows == before


@pytest.mark.parametrize("source", ["/etc", "/no/such/place", "../x", "/allowed/../etc", "/etc/passwd", "x\0y", "http://169.254.169.254/"])
async def test_sources_outside_say_nothing(http: httpx.AsyncClient, source: str) -> None:
    """One answer, whether or not something is there (D04)."""
    response = await http.post("/api/adapters", json={"source": source, "alias": "x"})
    assert response.status_code == 403
    assert response.json()["error"]["message"] == "This source is outside the folders that adapters may be registered from."


async def test_a_refused_adapter_names_tensor_expected_and_found(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """The engine's refusal reaches the caller whole (D08)."""

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise AdapterRefused(
            "The header is too long.", code="header_too_long", param="adapter_model.safetensors", expected=4096, found=2**62
        )

    engine.register = refuse  # type: ignore[method-assign]
    response = await http.post("/api/adapters", json={"source": "/allowed/x", "alias": "x"})
    error = response.json()["error"]
    assert response.status_code == 422
    assert (error["code"], error["param"]) == ("header_too_long", "adapter_model.safetensors")
    assert (error["expected"], error["found"]) == (4096, str(2**62))


@pytest.mark.parametrize(
    "body",
    [{}, {"source": 5, "alias": "x"}, {"source": "/allowed/x"}, {"alias": "x"}, {"source": "/allowed/x", "alias": "x", "dry_run": 1}],
)
async def test_register_bodies_are_strict(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    """Missing and mistyped fields are 400 by name."""
    response = await http.post("/api/adapters", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] in {"source", "alias", "dry_run"}


async def test_an_operator_of_all_registers_for_any_tenant(http: httpx.AsyncClient) -> None:
    """In local mode whoever asks may register for others; without a tenant it is the default one's."""
    assert (await http.post("/api/adapters", json={"source": "/allowed/x", "alias": "x", "tenant": "default"})).status_code == 201
    other = await http.post("/api/adapters", json={"source": "/allowed/x", "alias": "y", "tenant": "acme"})
    assert (other.status_code, other.json()["adapter"]["tenant"]) == (201, "acme")


async def test_get_one_by_alias_or_version(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Refs hold slashes; the row says what is wanted beside what is."""
    by_alias = (await http.get("/api/adapters/team/B")).json()
    by_id = (await http.get(f"/api/adapters/{engine.rows['team/B'].id}")).json()
    assert by_alias == by_id
    assert (by_alias["desired"], by_alias["drift"], by_alias["report"]["rank"]) == (None, False, 8)
    missing = await http.get("/api/adapters/nope")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "adapter_not_found")


async def test_verbs_move_the_adapter(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """warm, pin, unpin, evict by alias or version, with slashes, with and without a body."""
    version = engine.rows["team/B"].id
    assert (await http.post("/api/adapters/team/B/warm")).json()["adapter"]["tier"] == "device"
    evicted = (await http.post(f"/api/adapters/{version}/evict", json={"tier": "disk", "reason": "rarely used"})).json()
    assert (evicted["applied"], evicted["adapter"]["tier"], engine.rows["team/B"].tier) == (True, "disk", "disk")
    pinned = (await http.post("/api/adapters/A/pin", json={"until": "2099-01-31T08:00:00Z", "reason": "demo"})).json()
    assert pinned["adapter"]["desired"] == {"tier": "device", "until_unix": 4073529600.0, "reason": "demo"}
    assert pinned["arithmetic"] == [{"label": "Free", "pages": 4}]
    assert pinned["victims"] == [{"id": "f" * 32, "alias": "idle", "pages": 3, "idle_s": 9.0}]
    assert (await http.post("/api/adapters/A/unpin", content=b"")).json()["adapter"]["desired"] is None


async def test_preview_changes_nothing(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """``?preview=1`` says what would happen."""
    before = dict(engine.rows)
    body = (await http.post("/api/adapters/A/evict?preview=1")).json()
    assert (body["preview"], body["applied"]) == (True, False)
    assert engine.rows == before
    assert (await http.post("/api/adapters/A/evict?preview=perhaps")).status_code == 400


async def test_a_pin_that_does_not_fit_shows_its_arithmetic(http: httpx.AsyncClient) -> None:
    """409 with the sum that decided."""
    response = await http.post("/api/adapters/team/B/pin")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (409, "pin_would_not_fit")
    assert error["arithmetic"] == [{"label": "Arena", "pages": 9}, {"label": "Left", "pages": 1}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tier": "moon"}, "tier"),
        ({"tier": 1}, "tier"),
        ({"until": "soon"}, "until"),
        ({"until": "2099-01-01"}, "until"),
        ({"until": True}, "until"),
        ({"until": 1e18}, "until"),
        ({"until": 1e308}, "until"),
        ({"reason": "x" * 501}, "reason"),
        ({"reason": 5}, "reason"),
    ],
)
async def test_control_bodies_are_strict(http: httpx.AsyncClient, body: dict[str, Any], param: str) -> None:
    """A mistyped field is 400 by name, and nothing moves."""
    response = await http.post("/api/adapters/A/pin", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


async def test_a_pin_does_not_last_for_ever_by_overflow(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """A number too large for a float is no number."""
    response = await http.post("/api/adapters/A/pin", content='{"until": 1e999}')
    assert response.status_code == 400
    assert not engine.rows["A"].pinned


def test_until_takes_seconds_too() -> None:
    """Unix seconds and RFC 3339 text are the same moment."""
    assert (
        ControlBody.model_validate({"until": 4073529600}).until == ControlBody.model_validate({"until": "2099-01-31T08:00:00+00:00"}).until
    )


async def test_vllms_shapes(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Scripts written against vLLM load and unload."""
    loaded = await http.post("/v1/load_lora_adapter", json={"lora_name": "new", "lora_path": "/allowed/new"})
    assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'new' added successfully.")
    assert "new" in engine.rows
    taken = await http.post("/v1/load_lora_adapter", json={"lora_name": "new", "lora_path": "/allowed/other"})
    assert taken.status_code == 409
    replaced = await http.post("/v1/load_lora_adapter", json={"lora_name": "new", "lora_path": "/allowed/other", "load_inplace": True})
    assert replaced.status_code == 200
    unloaded = await http.post("/v1/unload_lora_adapter", json={"lora_name": "new", "lora_int_id": 1})
    assert (unloaded.status_code, unloaded.text) == (200, "Success: LoRA adapter 'new' removed successfully.")
    again = await http.post("/v1/unload_lora_adapter", json={"lora_name": "new"})
    assert (again.status_code, again.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_row_registered_a_moment_ago_is_waited_for(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """The snapshot comes a few times a second; a read right after a registration does not miss it."""
    await http.post("/api/adapters", json={"source": "/allowed/new", "alias": "new"})
    plain, since_s = engine.snapshot, time.monotonic()

    def late() -> EngineSnapshot:
        snapshot = plain()
        if time.monotonic() - since_s > 0.15:
            return snapshot
        return replace(snapshot, adapters=tuple(row for row in snapshot.adapters if row.alias != "new"))

    engine.snapshot = late  # type: ignore[method-assign]
    assert (await http.get("/api/adapters/new")).status_code == 200
