"""A disk that fills up during an import: it says so, loses no row, and goes on once there is room; serving never stops."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import httpx
import pytest

from engine.adapters import archive, image
from engine.api.app import build_app
from engine.caller import LOCAL
from engine.errors import RegistryUnavailable
from engine.intake import work, worker
from engine.intake.importing import Import
from tests.engine.database_faults import full, read_only
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, until
from tests.engine.integration.test_imports import ended, listed, now, sources, start
from tests.tiny import AdapterRecipe


def no_space(*_: object, **__: object) -> None:
    """As the kernel says it."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def served(engine: Make, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Small parts, short waits."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 4)
    monkeypatch.setattr(work, "RETRY_S", 0.01)
    monkeypatch.setattr(worker, "RETRY_S", 0.01)
    return engine()


def images(served: Served) -> int:
    """Files of the disk tier, half written ones too."""
    return len([path for path in served.host.residency.disk.folder.iterdir() if path.is_file()])


async def goes_on(served: Served, operation: str, folders: list[Path]) -> None:
    """Resumed with room, it ends with every row taken in once."""
    await asyncio.to_thread(served.engine.operations.resume, operation, caller=LOCAL)
    record = (await ended(served, operation)).record
    assert (record.state, record.done, record.failed) == ("done", len(folders), 0)
    assert {folder.name for folder in folders} <= {card.id for card in served.engine.models()}


@pytest.mark.parametrize("registry", [False, True])
async def test_no_room_for_images(served: Served, tiny_base: Path, monkeypatch: pytest.MonkeyPatch, registry: bool) -> None:  # noqa: FBT001
    """Failed with ``disk_full``, also where the registry takes that only once it can be written again; no file is left."""
    steady = await served.add("steady", AdapterRecipe(seed=41))
    folders = sources(served.data, 12)
    write, room, filled = image._write_all, 9, threading.Event()
    if not registry:
        filled.set()

    def some(file: object, data: bytes) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            filled.wait(20)
            no_space()
        write(file, data)  # type: ignore[arg-type]

    told, end = threading.Event(), worker.Worker._end

    def telling(*args: object, **more: object) -> None:
        told.set()
        end(*args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as broken:
        broken.setattr(image, "_write_all", some)
        broken.setattr(worker.Worker, "_end", telling)
        operation = await start(served, listed(folders))
        if registry:
            await until(lambda: room < 0)
            with read_only(served.host.catalog.store):
                filled.set()
                await until(told.is_set)
                assert (await served.ask("steady")).ids == expected(tiny_base, steady)
        record = (await ended(served, operation)).record
        assert (await served.ask("steady")).ids == expected(tiny_base, steady)
    assert (record.state, record.options["code"]) == ("failed", "disk_full")
    assert "No space left on device" in record.message
    assert record.message.endswith("Then resume.")
    assert (record.done, record.failed) == (4, 0)
    assert images(served) == 4 + 1
    await goes_on(served, operation, folders)


async def test_no_room_in_the_registry(served: Served, tiny_base: Path) -> None:
    """It waits and says for what, and goes on by itself."""
    steady = await served.add("steady", AdapterRecipe(seed=41))
    folders = sources(served.data, 24)
    operation = await start(served, listed(folders))
    await until(lambda: now(served, operation).record.done >= 4)
    with full(served.host.catalog.store):
        await until(lambda: "the disk is full" in now(served, operation).stalled)
        assert now(served, operation).record.state == "running"
        assert (await served.ask("steady")).ids == expected(tiny_base, steady)
    record = (await ended(served, operation)).record
    assert (record.state, record.done, record.failed) == ("done", 24, 0)


async def test_no_room_to_unpack(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes from elsewhere has to lie somewhere: no row is rejected for it, and a single registration says so too."""
    folder = served.folder("packed", AdapterRecipe(seed=5))
    packed = shutil.make_archive(str(served.data / "sources" / "packed-zip"), "zip", folder)
    request = Import(kind="manifest", manifest=f"source,alias\n{packed},packed\n", form="csv")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", lambda self, mode="r", *args, **more: no_space() if mode == "xb" else open(self, mode, *args, **more))  # noqa: PTH123, SIM115
        record = (await ended(served, await start(served, request))).record
        with pytest.raises(RegistryUnavailable) as refused:
            await served.register(packed, "packed")
    assert (record.state, record.options["code"], record.failed) == ("failed", "disk_full", 0)
    assert refused.value.code == "disk_full"
    assert not list(served.engine.operations.uploads.folder.glob("*"))
    await asyncio.to_thread(served.engine.operations.resume, record.id, caller=LOCAL)
    assert (await ended(served, record.id)).record.done == 1


async def test_no_room_for_an_upload_or_an_archive(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 ``disk_full``, nothing is left behind, and the version is what it was."""
    await served.add("x", AdapterRecipe(seed=1))
    version = served.entry("x").record.id
    retirement = served.engine.versions.retirement
    await asyncio.to_thread(retirement.retire, "x")
    await until(lambda: version not in served.host.residency.entries)
    with monkeypatch.context() as broken:
        broken.setattr(archive.os, "fsync", no_space)
        with pytest.raises(RegistryUnavailable) as refused:
            await asyncio.to_thread(retirement.archive, "x@1")
    assert refused.value.code == "disk_full"
    assert not [path for path in (served.data / "archive").rglob("*") if path.is_file()]
    transport = httpx.ASGITransport(app=build_app(served.engine), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        with monkeypatch.context() as broken:
            broken.setattr("engine.intake.uploads.anyio.open_file", no_space)
            answer = await http.post("/api/uploads?alias=x", content=b"PK")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "disk_full")
    assert not list(served.engine.operations.uploads.folder.glob("*"))
    await asyncio.to_thread(retirement.archive, "x@1")


async def test_images_that_may_only_be_read(served: Served, tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says so, though a read-only folder says it of files that are not there as well; what served goes on."""
    steady = await served.add("steady", AdapterRecipe(seed=41))
    before = images(served)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    folder = served.folder("new", AdapterRecipe(seed=42))
    with monkeypatch.context() as patch:
        patch.setattr(image.tempfile, "mkstemp", refuse)
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(RegistryUnavailable, match="Read-only"):
            await served.register(folder, "new")
        assert (await served.ask("steady")).ids == expected(tiny_base, steady)
    assert images(served) == before
    await served.register(folder, "new")
