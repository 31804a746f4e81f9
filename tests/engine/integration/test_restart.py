"""What is registered outlasts the process, and what is damaged is found."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path

import pytest

from engine.data_lock import DataLock
from engine.errors import BaseRefused, Conflict, LoradeckError, ModelNotFound
from engine.events import ProbeMismatch
from engine.memory import layout
from engine.registry.journal import JOURNAL
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, outcome, serve, until
from tests.postgres import PostgresServer
from tests.tiny import AdapterRecipe


def image_of(served: Served, alias: str) -> Path:
    """The file behind an alias."""
    return served.host.residency.disk.path(served.entry(alias).record.id)


def flip(path: Path, offset: int = -100) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database(request: pytest.FixtureRequest) -> str:
    """What ``--database`` says: nothing, or a PostgreSQL."""
    if request.param == "sqlite":
        return ""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()


async def test_a_restart_keeps_adapters_and_aliases(tiny_base: Path, tmp_path: Path, database: str) -> None:
    """Aliases, reports and proofs are there after a restart, and answers are the same; what was withdrawn is not."""
    with serve(tiny_base, tmp_path, database=database) as before:
        folder = await before.add("x", AdapterRecipe(seed=95))
        await before.register(folder, "acme/x")
        await before.add("gone", AdapterRecipe(seed=96))
        await before.unregister("gone")
        row = await before.row("x")
    assert (tmp_path / "loradeck.db").exists() == (not database)
    with serve(tiny_base, tmp_path, database=database) as after:
        assert [card.id for card in after.engine.models()] == [after.engine.base_name, "x", "acme/x"]
        again = await after.row("x")
        assert (again.id, again.aliases) == (row.id, ("x", "acme/x"))
        assert (again.probe, again.probe_fingerprint, again.warnings) == ("ok", row.probe_fingerprint, row.warnings)
        assert (again.registered_unix, again.source) == (row.registered_unix, row.source)
        assert (await after.ask("acme/x")).ids == expected(tiny_base, folder)
        await until(lambda: not after.entry("x").recheck)
        assert after.entry("x").probe == "ok"


def forget_registry(data: Path) -> None:
    """As it was before there was a database."""
    for path in data.glob("loradeck.db*"):
        path.unlink()


def journal_of(served: Served, *aliases: str) -> str:
    """What an earlier Loradeck would have kept of these aliases."""
    lines: list[object] = []
    for alias in aliases:
        record = dataclasses.asdict(served.entry(alias).record)
        facts = {name: value for name, value in record.items() if name not in {"key", "line", "number", "state"}}
        lines += [{"put_version": facts}, {"put_alias": {"alias": alias, "adapter": record["id"]}}]
    lines += [{"put_alias": {"alias": "gone", "adapter": record["id"]}}, {"drop_alias": {"alias": "gone"}}]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("torn", ["", '{"put_alias": {"al', "\0" * 300, '{"drop_alias": {"alias": "x"'])
async def test_a_journal_of_an_earlier_version_is_taken_over_once(tiny_base: Path, tmp_path: Path, torn: str) -> None:
    """Versions and aliases of the journal that came before the database are registered; a line that a crash cut short changes nothing."""
    with serve(tiny_base, tmp_path) as before:
        folder = await before.add("x", AdapterRecipe(seed=97))
        await before.add("y", AdapterRecipe(seed=88))
        journal = before.host.residency.disk.folder / JOURNAL
        text = journal_of(before, "x", "y")
    forget_registry(tmp_path)
    journal.write_text(text + torn)
    for _ in range(2):
        with serve(tiny_base, tmp_path) as after:
            assert [card.id for card in after.engine.models()][1:] == ["x", "y"]
            assert (await after.ask("x")).ids == expected(tiny_base, folder)
            assert after.entry("x").probe == "ok"
        assert not journal.exists()
        assert journal.with_name(journal.name + ".imported").exists()


async def test_what_a_crash_left_is_swept(tiny_base: Path, tmp_path: Path) -> None:
    """Images of no version and files half written are gone after a restart; that of a retired version stays, to be restored."""
    with serve(tiny_base, tmp_path) as before:
        await before.add("x", AdapterRecipe(seed=98))
        record = before.entry("x").record
        image = image_of(before, "x")
    (image.parent / f"{'0' * 32}.image").write_bytes(b"x")
    (image.parent / f".{image.name}.k2j3").write_bytes(b"x")
    (image.parent / ".part-k2j3").write_bytes(b"x")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive/.part-k2j3").write_bytes(b"x")
    with serve(tiny_base, tmp_path) as after:
        assert {path.name for path in image.parent.iterdir()} == {image.name}
        assert not list((tmp_path / "archive").iterdir())
        await after.unregister("x")
    with serve(tiny_base, tmp_path) as last:
        assert not last.host.catalog.versions
        assert [path.stem for path in image.parent.iterdir()] == [record.id]


@pytest.mark.parametrize("damage", ["byte", "header", "short", "missing"])
async def test_a_damaged_image_fails_its_own_requests(engine: Make, tiny_base: Path, damage: str) -> None:
    """A damaged image is a typed error for who asked for it, until the adapter is registered again; others never notice."""
    served = engine()
    folder = await served.add("x", AdapterRecipe(seed=99))
    other = await served.add("y", AdapterRecipe(seed=100))
    await served.control("evict", "x", tier="disk")
    image = image_of(served, "x")
    if damage == "missing":
        image.unlink()
    elif damage == "short":
        image.write_bytes(image.read_bytes()[:-10])
    else:
        flip(image, -100 if damage == "byte" else 60)
    for _ in range(2):
        bad, good = await asyncio.gather(outcome(served.submit("x")), served.ask("y"))
        assert isinstance(bad, LoradeckError)
        assert bad.code in {"image_damaged", "image_unreadable"}
        assert good.ids == expected(tiny_base, other)
    assert served.host.pool.count("adapter") == served.entry("y").record.num_pages
    await served.register(folder, "x")
    assert (await served.ask("x")).ids == expected(tiny_base, folder)


async def test_an_adapter_that_changed_in_memory_is_quarantined(engine: Make, tiny_base: Path) -> None:
    """Weights tampered with in host memory are found in the first idle moment after their load: alarm, 404, and its pages come back.

    Registering the adapter again proves it anew and ends the quarantine.
    """
    served = engine()
    folder = await served.add("x", AdapterRecipe(seed=94))
    await served.control("evict", "x", tier="host")
    entry = served.entry("x")
    copy = served.host.residency.host.get(entry.record.id)
    assert copy is not None
    copy.pages[:, : copy.pages.shape[1] // 2] = 0
    await served.control("warm", "x")
    await until(lambda: entry.quarantined)
    alarms = [event for _, event in served.engine.events().events if isinstance(event, ProbeMismatch)]
    assert [event.alias for event in alarms] == ["x"]
    assert alarms[0].expected != alarms[0].found
    row = await served.row("x")
    assert (row.probe, row.lifecycle) == ("mismatch", "rejected")
    assert served.host.pool.count("adapter") == 0
    assert isinstance(await outcome(served.submit("x")), ModelNotFound)
    for verb in ("warm", "pin"):
        with pytest.raises(Conflict) as caught:
            await served.control(verb, "x")  # type: ignore[arg-type]
        assert caught.value.code == "quarantined"
    answer = await served.register(folder, "x")
    assert (answer.report.probe, answer.row.probe, answer.row.lifecycle) == ("ok", "ok", "ready")
    assert (await served.ask("x")).ids == expected(tiny_base, folder)


async def test_an_image_of_another_device_is_refused_and_written_anew(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data folder whose images were packed for other pages says so to who asks, and a registration packs them again."""
    with serve(tiny_base, tmp_path) as before:
        folder = await before.add("x", AdapterRecipe(seed=93))
    monkeypatch.setattr(layout, "PAGE_TOKENS", 32)
    with serve(tiny_base, tmp_path) as after:
        refused = await outcome(after.submit("x"))
        assert isinstance(refused, LoradeckError)
        assert refused.code == "image_of_another_device"
        await after.register(folder, "x")
        assert (await after.ask("x")).ids == expected(tiny_base, folder)


def test_a_second_process_is_kept_out_of_the_folder(tmp_path: Path) -> None:
    """It would sweep away the first one's images. Let go again, the folder is free."""
    first, second = DataLock(tmp_path), DataLock(tmp_path)
    first.take()
    with pytest.raises(BaseRefused) as refused:
        second.take()
    assert (refused.value.code, refused.value.param) == ("data_in_use", "data")
    assert str(os.getpid()) in refused.value.message
    first.give_back()
    second.take()
    second.give_back()
