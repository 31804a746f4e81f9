"""Names move between versions under load: refused, moved and rolled back, with nobody's answer lost, late or wrong."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from engine.api.app import build_app
from engine.errors import AdapterRefused, Conflict, LoradeckError, ModelNotFound
from engine.ids import AdapterId
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import NUM_TOKENS, PROMPT, Served, expected, first_chunk, read, until
from tests.engine.integration.test_bad_adapters import Q0, edit_tensors
from tests.tiny import AdapterRecipe

KV = ("k_proj", "v_proj")
SCORED = {"metric": "exact", "heldout_digest": "h"}


def scored(folder: Path, score: float) -> Path:
    """The folder with a training record of that score."""
    (folder / "training.json").write_text(json.dumps({**SCORED, "scores": {"adapter": score}}))
    return folder


BAD: dict[str, tuple[Callable[[Served], Path], str]] = {
    "nan": (
        lambda served: bent(served, "nan", lambda folder: edit_tensors(folder, lambda tensors: tensors[Q0].fill(np.nan))),
        "non_finite",
    ),
    "shape": (lambda served: bent(served, "half", lambda folder: edit_tensors(folder, lambda tensors: tensors.pop(Q0))), "missing_pair"),
    "worse": (lambda served: scored(served.folder("worse", AdapterRecipe(seed=3)), 0.5), "score_dropped"),
    "unscored": (lambda served: served.folder("unscored", AdapterRecipe(seed=4)), "score_missing"),
    "zero": (lambda served: scored(served.folder("zero", AdapterRecipe(seed=5, alpha=0)), 0.9), "all_zero"),
    "faint": (lambda served: scored(served.folder("faint", AdapterRecipe(seed=5, std=1e-6)), 0.9), "no_effect"),
}
"""A folder, and the code of its refusal."""


def bent(served: Served, name: str, damage: Callable[[Path], object]) -> Path:
    """A damaged folder with a good score."""
    folder = scored(served.folder(name, AdapterRecipe(seed=6)), 0.9)
    damage(folder)
    return folder


@dataclass(slots=True)
class Load:
    """Six clients that ask for one name without a pause, and what they got."""

    served: Served
    alias: str = "x"
    answers: list[tuple[AdapterId, tuple[int, ...], tuple[int, ...], float, str | None]] = field(default_factory=list)
    """Version, prompt, tokens, seconds waited for the adapter, tier at arrival."""
    stopping: bool = False

    async def client(self, number: int) -> None:
        """One request after another; any error ends the test."""
        prompt = (*PROMPT, number)
        while not self.stopping:
            stream = self.served.submit(self.alias, prompt, max_tokens=NUM_TOKENS)
            answer = await read(stream)
            assert stream.target.adapter is not None
            self.answers.append((stream.target.adapter, prompt, answer.ids, answer.record.adapter_load_s, answer.record.tier_at_arrival))

    async def more(self, count: int = 8) -> None:
        """Wait for so many more answers."""
        before = len(self.answers)
        await until(lambda: len(self.answers) >= before + count)


async def test_a_bad_version_is_refused_and_a_good_one_moves_and_rolls_back_under_load(engine: Make, tiny_base: Path) -> None:
    """Six bad versions are refused behind a live alias; a good one moves and rolls back six times.

    Every answer is the oracle's of the version that its stream names, none fails, and none waits for its adapter.
    """
    served = engine()
    old = scored(served.folder("old", AdapterRecipe(seed=1, modules=KV)), 0.8)
    good = scored(served.folder("good", AdapterRecipe(seed=2, modules=KV)), 0.79)
    await served.register(old, "x")
    first = served.entry("x").record.id
    load = Load(served)
    clients = [asyncio.create_task(load.client(number)) for number in range(6)]
    await load.more()
    for number, (make, code) in enumerate(BAD.values()):
        with pytest.raises(AdapterRefused) as caught:
            await served.register(make(served), "x", replace=True)
        assert caught.value.code == code
        assert served.engine.resolve("x").adapter == first
        report = await asyncio.to_thread(served.engine.versions.report, "x", number=number + 2)
        assert report["state"] == "rejected"
        assert [check["code"] for check in report["report"]["checks"] if check["verdict"] == "failed"] == [code]
        await load.more()
    await served.register(good, "x", replace=True)
    second = served.entry("x").record.id
    assert second != first
    for turn in range(6):
        await load.more()
        back = await asyncio.to_thread(served.engine.versions.names.rollback, "x")
        assert back.after.id == (first, second)[turn % 2] == served.engine.resolve("x").adapter
    await load.more()
    load.stopping = True
    await asyncio.gather(*clients)
    folders = {first: old, second: good}
    for version, prompt, ids, waited_s, tier in load.answers:
        assert ids == expected(tiny_base, folders[version], prompt), version
        assert (waited_s, tier) == (0.0, "device")
    counts = Counter(version for version, *_ in load.answers)
    assert min(counts[first], counts[second]) > 10


async def test_rejected_versions_are_never_routed_to(engine: Make) -> None:
    """Not by alias, canary, rollback, id or restore, also after a restart; the refusal names the state."""
    served = engine()
    await served.register(scored(served.folder("old", AdapterRecipe(seed=1)), 0.8), "x")
    with pytest.raises(AdapterRefused):
        await served.register(scored(served.folder("worse", AdapterRecipe(seed=3)), 0.5), "x", replace=True)
    rejected = await asyncio.to_thread(served.engine.versions.report, "x@2")
    assert (rejected["state"], rejected["number"]) == ("rejected", 2)
    with pytest.raises(ModelNotFound):
        served.submit(rejected["content"])
    names, retirement = served.engine.versions.names, served.engine.versions.retirement
    attempts: tuple[Callable[[], object], ...] = (
        lambda: names.move("x", "2"),
        lambda: names.move("x", rejected["content"]),
        lambda: names.canary("x", "2", 0.5),
        lambda: names.rollback("x"),
        lambda: retirement.restore("x@2"),
    )
    for attempt in attempts:
        with pytest.raises(LoradeckError) as caught:
            await asyncio.to_thread(attempt)
        assert caught.value.status in {404, 409}
    assert served.engine.resolve("x").adapter != rejected["content"]


async def test_a_move_that_cannot_be_as_warm_is_refused_with_the_sum(engine: Make, tiny_base: Path) -> None:
    """Two versions that do not fit the device together: the move is a 409 with the arithmetic, and the old one goes on serving."""
    served = engine(pages=24, kv_floor=0.1)
    recipe = {"rank": 32, "modules": ("q_proj", "v_proj", "o_proj", "down_proj")}
    old = await served.add("x", AdapterRecipe(seed=1, **recipe))  # type: ignore[arg-type]
    new = served.folder("new", AdapterRecipe(seed=2, **recipe))  # type: ignore[arg-type]
    before = served.entry("x").record
    assert 12 <= before.num_pages <= 20
    await served.control("warm", "x")
    with pytest.raises(Conflict) as caught:
        await served.register(new, "x", replace=True)
    assert caught.value.code == "not_as_warm"
    lines = dict(caught.value.arithmetic)
    assert lines["Left"] < lines["Needed"] == before.num_pages
    assert served.engine.resolve("x").adapter == before.id
    assert served.entry("x").holds == 0
    assert (await served.ask("x")).ids == expected(tiny_base, old)
    await served.control("evict", "x", tier="disk")
    await served.register(new, "x", replace=True)
    assert (await served.ask("x")).ids == expected(tiny_base, new)


async def test_a_canary_gets_its_share_and_answers_say_which_version(engine: Make, tiny_base: Path) -> None:
    """Of forty requests over HTTP ten go to the canary, exactly; ``model`` stays the alias, the header names the version; then promoted."""
    served = engine()
    old = await served.add("x", AdapterRecipe(seed=1, modules=KV))
    await served.register(served.folder("y", AdapterRecipe(seed=2, modules=KV)), "y")
    first, second = served.entry("x").record.id, served.entry("y").record.id
    async with client_of(served) as http:
        answer = await http.post("/api/aliases/x/canary?preview=1", json={"version": second, "share": 0.25})
        assert (answer.status_code, answer.json()["preview"], answer.json()["canary"]["share"]) == (200, True, 0.25)
        assert (await http.get("/api/aliases?q=x")).json()["aliases"][0]["canary"] is None
        answer = await http.post("/api/aliases/x/canary", json={"version": second, "share": 0.25, "why": "try it"})
        assert answer.status_code == 200, answer.text
        versions = []
        for _ in range(40):
            body = {"model": "x", "prompt": list(PROMPT), "max_tokens": 8, "temperature": 0}
            answer = await http.post("/v1/completions", json=body)
            version = answer.headers["x-loradeck-version"]
            assert answer.json()["model"] == "x"
            assert answer.json()["system_fingerprint"] == version
            versions.append(version)
        assert Counter(versions) == {first: 30, second: 10}
        answer = await http.post("/api/aliases/x/promote", json={})
        assert answer.json()["after"]["id"] == second
        assert served.engine.resolve("x").adapter == second
        history = (await http.get("/api/aliases/x/history")).json()["history"]
        assert [move["kind"] for move in history] == ["move", "canary", "create"]
        assert [move["why"] for move in history] == ["", "try it", ""]
        answer = await http.post("/api/aliases/x/rollback", json={})
        assert answer.json()["after"]["id"] == first
    assert (await served.ask("x")).ids == expected(tiny_base, old)


async def test_what_was_answered_is_what_is_read_next(engine: Make) -> None:
    """An adapter that is asked for after a pin, its end or a move is as that left it, each time."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=1, modules=KV))
    await served.register(served.folder("new", AdapterRecipe(seed=2, modules=KV)), "x", replace=True)
    async with client_of(served) as http:
        for turn in range(10):
            verb = ("pin", "unpin")[turn % 2]
            await http.post(f"/api/adapters/x/{verb}")
            assert (await http.get("/api/adapters/x")).json()["pinned"] == (verb == "pin"), turn
        for turn in range(10):
            moved = (await http.post("/api/aliases/x/rollback", json={})).json()["after"]["id"]
            assert (await http.get("/api/adapters/x")).json()["id"] == moved, turn


async def test_a_stream_that_runs_while_its_name_moves_ends_where_it_began(engine: Make, tiny_base: Path) -> None:
    """To and fro during one long stream: it is the oracle's of its own version from end to end."""
    served = engine()
    old = await served.add("x", AdapterRecipe(seed=1, modules=KV))
    await served.register(served.folder("new", AdapterRecipe(seed=2, modules=KV)), "x", replace=True)
    await asyncio.to_thread(served.engine.versions.names.rollback, "x")
    stream = served.submit("x", max_tokens=150)
    head = await first_chunk(stream)
    for _ in range(3):
        await asyncio.to_thread(served.engine.versions.names.rollback, "x")
    rest = await read(stream)
    assert head.token_ids + rest.ids == expected(tiny_base, old, num_tokens=150)


def client_of(served: Served) -> httpx.AsyncClient:
    """HTTP to a running engine, in process."""
    transport = httpx.ASGITransport(app=build_app(served.engine), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
