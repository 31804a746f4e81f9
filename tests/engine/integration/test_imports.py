"""Imports as operations: many in one, carried on after a stop, and nothing answers before it was proven."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine import process
from engine.caller import LOCAL, Caller
from engine.errors import Conflict, Forbidden, OperationNotFound, RegistryUnavailable
from engine.events import OperationChanged
from engine.ids import TenantId
from engine.intake import work
from engine.intake.batch import Batch
from engine.intake.importing import Import
from engine.intake.progress import Progress
from engine.registration import Registrar
from engine.report import Thresholds
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, read, serve, until
from tests.tiny import AdapterRecipe, write_adapter

STRANGER = Caller(name="eve", kind="user", role="operator", tenant=TenantId("evil"))


def sources(data: Path, count: int) -> list[Path]:
    """Small distinct adapters."""
    return [write_adapter(data / f"many/a{n:02}", AdapterRecipe(seed=100 + n, rank=1, modules=("v_proj",))) for n in range(count)]


def listed(folders: Iterable[Path], **options: object) -> Import:
    """A manifest of them, under their own names."""
    text = "source,alias\n" + "".join(f"{folder},{folder.name}\n" for folder in folders)
    return Import(kind="manifest", manifest=text, form="csv", **options)  # type: ignore[arg-type]


async def start(served: Served, request: Import) -> str:
    """Queue it; its id."""
    return (await asyncio.to_thread(served.engine.operations.start, request, caller=LOCAL)).record.id


def now(served: Served, operation: str) -> Progress:
    """How far it is."""
    return served.engine.operations.get(operation, caller=LOCAL)


async def ended(served: Served, operation: str) -> Progress:
    """Wait for its end."""
    await until(lambda: now(served, operation).record.state not in {"reading", "queued", "running"})
    return now(served, operation)


async def test_many_in_one(engine: Make, tiny_base: Path) -> None:
    """Good rows are served under their names, bad ones rejected with code and field; a second time all is unchanged."""
    served = engine()
    folders = sources(served.data, 40)
    (folders[3] / "adapter_model.safetensors").unlink()
    request = listed([*folders, Path("/etc/nothing")])
    done = await ended(served, await start(served, request))
    assert (done.record.state, done.record.total, done.record.done, done.record.failed) == ("done", 41, 39, 2)
    rejected = served.engine.operations.rows(done.record.id, state="rejected", caller=LOCAL)
    assert [(row.number, row.code, row.result["param"]) for row in rejected] == [
        (3, "no_weights", "adapter_model.safetensors"),
        (40, "source_not_allowed", "source"),
    ]
    row = await served.row("a07")
    assert row.probe == "unproven"
    answer = await served.ask("a07")
    assert answer.ids == expected(tiny_base, folders[7])
    assert (await served.row("a07")).probe == "ok"
    again = await ended(served, await start(served, request))
    outcomes = [item.outcome for item in served.engine.operations.rows(again.record.id, caller=LOCAL)]
    assert outcomes.count("unchanged") == 39
    events = [event for _, event in served.engine.events().events if isinstance(event, OperationChanged)]
    assert events[-1].done == 39


async def test_a_dry_run_changes_nothing(engine: Make) -> None:
    """New, unchanged, updated and rejected are told apart, in pages."""
    served = engine()
    folders = sources(served.data, 4)
    await ended(served, await start(served, listed(folders[:2])))
    moved = f"source,alias,replace\n{folders[0]},a00,\n{folders[2]},a01,true\n{folders[3]},a01x,\n{folders[2]},a00y,x\n{folders[2]},a00,\n"
    request = Import(kind="manifest", manifest=moved, form="csv")
    before = [card.id for card in served.engine.models()]
    told = await asyncio.to_thread(served.engine.operations.dry_run, request, offset=0, limit=10, caller=LOCAL)
    assert [row.outcome for row in told.rows] == ["unchanged", "updated", "new", "rejected", "rejected"]
    assert [row.fault and (row.fault.code, row.fault.param) for row in told.rows[3:]] == [
        ("invalid_value", "replace"),
        ("duplicate_alias", "alias"),
    ]
    page = await asyncio.to_thread(served.engine.operations.dry_run, request, offset=1, limit=2, caller=LOCAL)
    assert (page.total, [row.outcome for row in page.rows]) == (5, ["updated", "new"])
    assert [card.id for card in served.engine.models()] == before


async def test_a_scan_names_by_path(engine: Make) -> None:
    """Below the alias that was given."""
    served = engine()
    sources(served.data, 3)
    done = await ended(served, await start(served, Import(kind="scan", source=str(served.data / "many"), alias="acme")))
    assert done.record.done == 3
    assert served.engine.resolve("acme/a01")


async def test_a_stop_in_the_middle_is_carried_on(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start goes on with the rows that wait; none is lost, none is done twice."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 4)
    folders = sources(tmp_path / "data", 30)
    with serve(tiny_base, tmp_path / "data") as served:
        operation = await start(served, listed(folders))
        await until(lambda: now(served, operation).record.done >= 4)
    with serve(tiny_base, tmp_path / "data") as served:
        first = now(served, operation).record
        assert first.done < 30
        done = await ended(served, operation)
        assert (done.record.state, done.record.done, done.record.failed) == ("done", 30, 0)
        assert {f"a{n:02}" for n in range(30)} < {card.id for card in served.engine.models()}


async def test_cancel_resume_retry(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken in stays; the rest goes on when asked; rejected rows are tried again once their files are right."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 2)
    served = engine()
    operations = served.engine.operations
    folders = sources(served.data, 30)
    weights = folders[20] / "adapter_model.safetensors"
    weights.rename(served.data / "kept")
    operation = await start(served, listed(folders))
    await until(lambda: now(served, operation).record.done >= 2)
    assert (await asyncio.to_thread(operations.cancel, operation, caller=LOCAL)).record.state == "cancelled"
    await until(lambda: operations._worker.work is None)
    stood = now(served, operation).record
    assert 2 <= stood.done < 30
    await asyncio.to_thread(operations.resume, operation, caller=LOCAL)
    assert (await ended(served, operation)).record.failed == 1
    with pytest.raises(Conflict):
        operations.resume(operation, caller=LOCAL)
    (served.data / "kept").rename(weights)
    await asyncio.to_thread(operations.retry, operation, caller=LOCAL)
    done = (await ended(served, operation)).record
    assert (done.state, done.done, done.failed) == ("done", 30, 0)


async def test_one_conflict_does_not_spoil_the_batch(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An alias that another registration took between the look and the transaction: its row is rejected, the others are stored."""
    served = engine()
    folders = sources(served.data, 6)
    taken = served.folder("taken")
    prepare = work.Work._prepare

    def interrupted(self: work.Work, item: object) -> object:
        prepared = prepare(self, item)  # type: ignore[arg-type]
        if getattr(item, "number", 0) == 4:
            served.engine.register(str(taken), alias="a04", prove="first_load")
        return prepared

    monkeypatch.setattr(work.Work, "_prepare", interrupted)
    done = await ended(served, await start(served, listed(folders)))
    assert (done.record.done, done.record.failed) == (5, 1)
    (row,) = served.engine.operations.rows(done.record.id, state="rejected", caller=LOCAL)
    assert (row.number, row.code) == (4, "alias_taken")


async def test_a_database_that_is_away_is_waited_for(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are neither lost nor rejected for it."""
    monkeypatch.setattr(work, "RETRY_S", 0.01)
    served = engine()
    real, tries = Registrar.serve, []

    def flaky(self: Registrar, *args: object, **options: object) -> object:
        tries.append(1)
        if len(tries) < 4:
            raise RegistryUnavailable("away")
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Registrar, "serve", flaky)
    done = await ended(served, await start(served, listed(sources(served.data, 3))))
    assert (done.record.done, done.record.failed) == (3, 0)


async def test_whose_it_is(engine: Make) -> None:
    """A tenant's user may not register for another tenant, and finds no operation of others; a viewer may start none."""
    served = engine()
    folders = sources(served.data, 1)
    operations = served.engine.operations
    operation = await start(served, listed(folders))
    await ended(served, operation)
    for ask in (operations.get, operations.cancel, operations.resume, operations.retry, operations.rows, operations.errors_csv):
        with pytest.raises(OperationNotFound):
            ask(operation, caller=STRANGER)
    assert operations.page(caller=STRANGER) == []
    told = operations.dry_run(listed(folders, tenant="default"), offset=0, limit=5, caller=STRANGER)
    assert [row.fault and row.fault.code for row in told.rows] == ["forbidden"]
    viewer = Caller(name="v", kind="user", role="viewer", tenant=None)
    with pytest.raises(Forbidden):
        operations.start(listed(folders), caller=viewer)


async def test_requests_go_on_meanwhile(engine: Make, tiny_base: Path) -> None:
    """A stream that runs through an import gives the oracle's tokens."""
    served = engine()
    good = await served.add("good")
    stream = served.submit("good", max_tokens=120)
    operation = await start(served, listed(sources(served.data, 20)))
    answer = await read(stream)
    assert answer.ids == expected(tiny_base, good, num_tokens=120)
    assert (await ended(served, operation)).record.done == 20


async def test_the_gate_is_the_same(engine: Make) -> None:
    """Rows that the gate refuses are kept as rejected versions with their report, and never answer."""
    served = engine()
    versions = served.engine.versions
    folders = sources(served.data, 3)
    for folder, score in ((folders[0], 0.95), (folders[1], 0.2)):
        (folder / "training.json").write_text(json.dumps({"scores": {"adapter": score, "base": 0.1}}))
    (folders[2] / "adapter_model.safetensors").write_bytes(b"{}")
    await asyncio.to_thread(versions.thresholds.set, Thresholds(min_score=0.9))
    done = await ended(served, await start(served, listed(folders)))
    assert (done.record.done, done.record.failed) == (1, 2)
    rejected = served.engine.operations.rows(done.record.id, state="rejected", caller=LOCAL)
    assert [row.code for row in rejected] == ["score_too_low", "truncated"]
    assert {card.id for card in served.engine.models()} >= {"a00"}
    assert not {"a01", "a02"} & {card.id for card in served.engine.models()}
    for name, code, check in (("a01", "score_too_low", "score"), ("a02", "truncated", "schema")):
        (row,) = await asyncio.to_thread(versions.history, name)
        assert (row["state"], row["report"]["code"]) == ("rejected", code)
        assert [one["verdict"] for one in row["report"]["checks"] if one["name"] == check] == ["failed"]
    (row,) = await asyncio.to_thread(versions.history, "a00")
    assert [one["verdict"] for one in row["report"]["checks"] if one["name"] == "score"] == ["passed"]
    record = next(record for record in served.host.catalog.records.values() if record.line == "a01")
    assert (record.state, record.number) == ("rejected", 1)


async def test_a_worse_version_leaves_the_name_where_it_is(engine: Make) -> None:
    """In bulk as by itself: what takes a place has to be as good."""
    served = engine()
    folders = sources(served.data, 2)
    for folder, score in zip(folders, (0.9, 0.5), strict=True):
        (folder / "training.json").write_text(json.dumps({"scores": {"adapter": score, "base": 0.1}}))
    await ended(served, await start(served, listed(folders[:1])))
    text = f"source,alias,replace\n{folders[1]},a00,true\n"
    done = await ended(served, await start(served, Import(kind="manifest", manifest=text, form="csv")))
    assert done.record.failed == 1
    newest, first = await asyncio.to_thread(served.engine.versions.history, "a00")
    assert (newest["state"], first["state"]) == ("rejected", "ready")
    assert served.engine.resolve("a00").adapter == first["content"]


async def test_a_retry_counts_no_row_twice(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that goes away between the rejected rows of a part and the good ones."""
    monkeypatch.setattr(work, "RETRY_S", 0.01)
    served = engine()
    folders = sources(served.data, 4)
    (folders[1] / "adapter_config.json").unlink()
    real, tries = Batch.take_in, []

    def flaky(self: Batch, *args: object, **options: object) -> object:
        tries.append(1)
        if len(tries) < 3:
            raise RegistryUnavailable("away")
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "take_in", flaky)
    done = await ended(served, await start(served, listed(folders)))
    assert (done.record.done, done.record.failed) == (3, 1)


async def test_lasting_rows_are_not_looked_at_again(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a large import and after a start with many rows, Python's collector passes over them, until the engine stops."""
    monkeypatch.setattr(process, "MANY_ROWS", 3)
    folders = sources(tmp_path / "data", 4)
    for expected_before in (False, True):
        with serve(tiny_base, tmp_path / "data") as served:
            assert bool(gc.get_freeze_count()) == expected_before
            await ended(served, await start(served, listed(folders)))
            assert gc.get_freeze_count() > 0
            assert gc.isenabled()
        assert gc.get_freeze_count() == 0
