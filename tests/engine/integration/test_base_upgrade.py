"""Another base on the same data: nothing serves on the wrong digest, and what was registered comes back through the gate."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.caller import LOCAL, Caller
from engine.desired import Pin
from engine.errors import BaseRefused, Conflict, ModelNotFound
from engine.intake import work
from engine.intake.importing import Import
from engine.intake.upgrade import read_base
from tests import tiny
from tests.engine.integration.serving import Served, expected, serve, until
from tests.engine.integration.test_import_api import done
from tests.engine.integration.test_imports import ended, now, start
from tests.engine.integration.test_moves import client_of
from tests.tiny import AdapterRecipe


async def applied(http: httpx.AsyncClient, **body: object) -> dict[str, Any]:
    """Register again, and wait for the operation's end."""
    started = await http.post("/api/bases/reregister", json=body)
    assert started.status_code == 202, started.text
    return await done(http, started.json()["id"])


async def dry_run(http: httpx.AsyncClient, **body: object) -> dict[str, tuple[object, ...]]:
    """What would become of each name."""
    told = (await http.post("/api/bases/reregister", json={"dry_run": True, **body})).json()
    return {row["alias"]: (row["outcome"], row.get("base_proof"), row["error"] and row["error"]["code"]) for row in told["rows"]}


def tied_to(digest: str, folder: Path) -> Path:
    """With a record that was trained on the base of this digest."""
    (folder / "training.json").write_text(json.dumps({"base_digest": digest}))
    return folder


async def test_a_new_base_serves_no_adapter_of_the_old_one(tiny_base: Path, tmp_path: Path) -> None:
    """A preview names what would stop; started with it, old names are 404 and a 409 with both digests to operators.

    Registering again serves what fits; back on the old base its own versions serve again.
    """
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    wider = tiny.write_base(data / "wider", dataclasses.replace(tiny.TINY, mlp=112))
    with serve(tiny_base, data) as served:
        folder = await served.add("x", AdapterRecipe(seed=1))
        await served.add("mlp", AdapterRecipe(seed=2, modules=("up_proj",)))
        tied = served.folder("tied", AdapterRecipe(seed=3))
        (tied / "training.json").write_text(json.dumps({"base_digest": served.engine.base_spec.digest}))
        await served.register(tied, "tied")
        version = served.entry("x").record.id
        async with client_of(served) as http:
            preview = (await http.get("/api/bases/preview", params={"source": str(wider)})).json()
            assert {stop["alias"]: stop["fits"] for stop in preview["stops"]} == {"x": True, "mlp": False, "tied": True}
            assert [base["adapters"] for base in (await http.get("/api/bases")).json()["bases"]] == [3]
        old_digest = served.engine.base_spec.digest
    with serve(other, data) as served:
        for name in ("x", "mlp", version):
            with pytest.raises(ModelNotFound):
                served.submit(name)
        assert [card.id for card in served.engine.models()] == [served.engine.base_name]
        with pytest.raises(Conflict) as caught:
            await asyncio.to_thread(served.engine.versions.names.move, "x", version)
        assert (caught.value.code, caught.value.found, caught.value.expected) == (
            "base_mismatch",
            old_digest,
            served.engine.base_spec.digest,
        )
        async with client_of(served) as http:
            listed = (await http.get("/api/bases")).json()
            assert [(base["adapters"], base["serves"]) for base in listed["bases"]] == [(3, False), (0, True)]
            assert len(listed["stranded"]) == 3
            done = await applied(http)
            assert (done["kind"], done["done"], done["failed"]) == ("import.base", 2, 1)
            (tied_row,) = (await http.get(f"/api/operations/{done['id']}/rows?state=rejected")).json()["rows"]
            assert (tied_row["row"]["alias"], tied_row["error"]["code"]) == ("tied", "base_mismatch")
        assert (await served.ask("x")).ids == expected(other, folder)
        lines = await asyncio.to_thread(served.engine.versions.history, "x")
        assert [(one["number"], one["state"], one["base_digest"]) for one in lines] == [
            (2, "ready", served.engine.base_spec.digest),
            (1, "ready", old_digest),
        ]
        with pytest.raises(ModelNotFound):
            served.submit("tied")
    with serve(tiny_base, data) as served:
        assert (await served.ask(version)).ids == expected(tiny_base, folder)
        with pytest.raises(ModelNotFound):
            served.submit("x")
        await asyncio.to_thread(served.engine.versions.names.move, "x", "1")
        assert (await served.ask("x")).ids == expected(tiny_base, folder)


UPGRADE = Import(kind="base")
ANA = Caller(name="ana", kind="user", role="admin", tenant=None)


async def test_a_base_never_answers_in_an_adapters_place(tiny_base: Path, tmp_path: Path) -> None:
    """A base whose name an alias has is refused at the start, which names both."""
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    with serve(tiny_base, data) as served:
        await served.add("other", AdapterRecipe(seed=1))
    with pytest.raises(BaseRefused, match="'other' is an alias of tenant 'default'") as caught, serve(other, data):
        pass
    assert (caught.value.code, caught.value.param) == ("base_name_taken", "base")


async def old_names(base: Path, data: Path, count: int) -> list[Path]:
    """Registered on ``base``: a00, a01, …; their folders."""
    with serve(base, data) as served:
        return [await served.add(f"a{n:02}", AdapterRecipe(seed=20 + n, rank=2, modules=("v_proj",))) for n in range(count)]


async def test_a_dry_run_says_what_each_name_would_become(tiny_base: Path, tmp_path: Path) -> None:
    """Before the base is started and after: proven, declared, refused with the reason; nothing changes, and nothing answers for it."""
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    with serve(tiny_base, data) as served:
        new_digest = read_base(str(other), served.engine.settings).digest
        await served.add("declared", AdapterRecipe(seed=1))
        old = served.folder("tied", AdapterRecipe(seed=2))
        await served.register(tied_to(served.engine.base_spec.digest, old), "tied")
        trained = served.folder("trained", AdapterRecipe(seed=3))
        await served.register(trained, "trained")
        gone = await served.add("gone", AdapterRecipe(seed=4))
        tied_to(new_digest, tiny.write_adapter(trained, AdapterRecipe(seed=5)))
        (gone / "adapter_model.safetensors").unlink()
        expected_fates = {
            "declared": ("updated", "declared", None),
            "gone": ("rejected", None, "no_weights"),
            "tied": ("rejected", None, "base_mismatch"),
            "trained": ("updated", "recorded", None),
        }
        async with client_of(served) as http:
            assert await dry_run(http, source=str(other)) == expected_fates
            assert (await dry_run(http, source=str(other), compatible_base=True))["tied"] == ("updated", "declared", None)
            refused = await http.post("/api/bases/reregister", json={"source": str(other)})
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "base_not_served")
            assert (await http.post("/api/bases/reregister", json={})).json()["error"]["code"] == "nothing_found"
            assert (await served.ask("declared")).ids
    with serve(other, data) as served:
        async with client_of(served) as http:
            assert await dry_run(http) == expected_fates
            assert not served.host.catalog.versions
            await applied(http)
        version = served.host.catalog.records[served.host.catalog.owned("trained", None).version]  # type: ignore[union-attr]
        assert (version.base_proof, version.number) == ("recorded", 2)
        assert any("other weights than version 1" in warning for warning in version.warnings)
        assert (await served.ask("trained")).ids == expected(other, trained)


async def test_a_pin_follows_its_name_to_the_new_base(tiny_base: Path, tmp_path: Path) -> None:
    """With its tier, end, reason and who set it, as the dry run says; the old version keeps its own, and one that has run out ends."""
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    until_unix = time.time() + 3600
    with serve(tiny_base, data) as served:
        for seed, name in enumerate(("hot", "warm", "past", "plain")):
            await served.add(name, AdapterRecipe(seed=seed))
        for name, tier, end_unix in (("hot", "device", None), ("warm", "host", until_unix), ("past", "device", time.time() + 0.5)):
            pinned = served.engine.control("pin", name, tier=tier, until_unix=end_unix, reason=f"{name} by day", caller=ANA)  # type: ignore[arg-type]
            await asyncio.wrap_future(pinned)
        old = served.entry("hot").record.id
        await until(lambda: served.entry("past").pin is None)
        async with client_of(served) as http:
            told = (await http.post("/api/bases/reregister", json={"dry_run": True, "source": str(other)})).json()
        along = {row["alias"]: row.get("pin") for row in told["rows"]}
        assert along == {"hot": {"tier": "device", "until_unix": None}, "warm": {"tier": "host", "until_unix": until_unix}} | dict.fromkeys(
            ("past", "plain")
        )
    for _ in range(2):  # and after a restart
        with serve(other, data) as served:
            if served.host.catalog.records[served.host.catalog.owned("hot", None).version].number == 1:  # type: ignore[union-attr]
                assert (await ended(served, await start(served, UPGRADE))).record.done == 4
            await until(lambda: served.entry("hot").on_device and served.entry("warm").pin is not None)
            pins = {name: served.entry(name).pin for name in ("hot", "warm", "past", "plain")}
            assert pins["hot"] == Pin(tier="device", until_unix=None, reason="hot by day", by="ana")
            assert pins["warm"] == Pin(tier="host", until_unix=until_unix, reason="warm by day", by="ana")
            assert (pins["past"], pins["plain"]) == (None, None)
            lines = await asyncio.to_thread(lambda: served.engine.audit.lines(action="version.pin"))
            assert [line.object for line in lines if line.object.endswith("@2")] == ["warm@2", "hot@2"]
    with serve(tiny_base, data) as served:
        await until(lambda: served.host.residency.entries[old].pin is not None)


async def test_an_upgrade_is_carried_on_after_a_stop(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start on the same base goes on with the names that wait; each serves once, and as the oracle says."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 4)
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    folders = await old_names(tiny_base, data, 24)
    with serve(other, data) as served:
        operation = await start(served, UPGRADE)
        await until(lambda: now(served, operation).record.done >= 4)
    with serve(other, data) as served:
        assert now(served, operation).record.done < 24
        record = (await ended(served, operation)).record
        assert (record.state, record.done, record.failed) == ("done", 24, 0)
        assert (await served.ask("a23")).ids == expected(other, folders[23])
        history = await asyncio.to_thread(served.engine.versions.history, "a00")
        assert [(one["number"], one["base_digest"] == served.engine.base_spec.digest) for one in history] == [(2, True), (1, False)]


async def test_an_upgrade_goes_on_with_no_other_base(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun on one base and found by another: it stops and says so, and what was declared for the one is taken in on none."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 2)
    data = tmp_path / "data"
    second = tiny.write_base(data / "second", tiny.TINY_2)
    third = tiny.write_base(data / "third", dataclasses.replace(tiny.TINY, seed=77))
    await old_names(tiny_base, data, 12)
    with serve(second, data) as served:
        operation = await start(served, dataclasses.replace(UPGRADE, compatible_base=True))
        await until(lambda: now(served, operation).record.done >= 2)
    with serve(third, data) as served:
        record = (await ended(served, operation)).record
        assert record.state == "failed"
        assert "begun while the base" in record.message
        assert not served.host.catalog.versions
    with serve(second, data) as served:
        await asyncio.to_thread(served.engine.operations.resume, operation, caller=LOCAL)
        assert (await ended(served, operation)).record.done == 12


async def test_a_name_that_was_touched_meanwhile_stays_as_it_is(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was moved by hand after the rows were stored is left there, one that was withdrawn does not come back."""
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    await old_names(tiny_base, data, 4)
    with serve(other, data) as served:
        new = served.folder("new", AdapterRecipe(seed=9))
        prepare = work.Work._prepare

        def touched(self: work.Work, item: object) -> object:
            if getattr(item, "number", 0) == 0:
                served.engine.register(str(new), alias="a01", replace=True, prove="first_load")
                served.engine.versions.drop("a02")
            prepared = prepare(self, item)  # type: ignore[arg-type]
            if getattr(item, "number", 0) == 3:
                served.engine.register(str(new), alias="a03", replace=True, prove="first_load")
            return prepared

        monkeypatch.setattr(work.Work, "_prepare", touched)
        monkeypatch.setattr(work, "WORKERS", 1)
        record = (await ended(served, await start(served, UPGRADE))).record
        assert (record.done, record.failed) == (2, 2)
        rows = served.engine.operations.rows(record.id, caller=LOCAL)
        assert [(row.outcome, row.code) for row in rows] == [
            ("updated", None),
            ("unchanged", None),
            ("rejected", "alias_gone"),
            ("rejected", "alias_moved"),
        ]
        await answers_as(served, ("a01", "a03"), other, new)
        with pytest.raises(ModelNotFound):
            served.submit("a02")


async def answers_as(served: Served, names: tuple[str, ...], base: Path, folder: Path) -> None:
    """Each of these names."""
    for name in names:
        assert (await served.ask(name)).ids == expected(base, folder)
