"""Archives that were sent: there while an operation needs them, and not for ever."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from engine.caller import LOCAL
from engine.errors import Conflict, PayloadTooLarge, RegistryUnavailable
from engine.intake import work, worker
from engine.intake.importing import Import
from engine.registry import operations as stored
from tests.engine.integration.serving import Served, serve, until
from tests.engine.integration.test_imports import ended, now, sources, start

LONG_AGO_S = 8 * 24 * 3600.0


async def parts(data: bytes) -> AsyncIterator[bytes]:
    """As a client sends it."""
    for first in range(0, len(data), 1000):
        yield data[first : first + 1000]


def packed(folders: list[Path], *, bad: bool) -> bytes:
    """A zip of adapters; a ``bad`` one has another that cannot be served."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for folder in folders:
            for path in folder.iterdir():
                made.write(path, f"{folder.name}/{path.name}")
        if bad:
            made.writestr("bad/adapter_config.json", "{}")
            made.write(folders[0] / "adapter_model.safetensors", "bad/adapter_model.safetensors")
    return file.getvalue()


async def upload(served: Served, data: bytes) -> tuple[str, Path]:
    """Send and begin; the operation and where its archive lies."""
    name = await served.engine.operations.uploads.keep(parts(data))
    operation = await start(served, Import(kind="upload", upload=name, alias="acme"))
    return operation, served.engine.operations.uploads.path(name)


async def age(served: Served, operation: str, archive: Path) -> None:
    """As if all of it had been eight days ago."""
    then = time.time() - LONG_AGO_S
    os.utime(archive, (then, then))
    await asyncio.to_thread(served.host.catalog.store.write, lambda session: stored.change(session, operation, ended_unix=then))


async def sweep(served: Served) -> None:
    """As the worker does it each hour."""
    await asyncio.to_thread(served.engine.operations.uploads.sweep)


async def test_an_archive_waits_a_week_for_another_try(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rejected rows can be tried again for so long, also after a restart; then it goes by itself, and a try says so."""
    with serve(tiny_base, tmp_path / "data") as served:
        operation, archive = await upload(served, packed(sources(served.data, 2), bad=True))
        record = (await ended(served, operation)).record
        assert (record.done, record.failed) == (2, 1)
    with serve(tiny_base, tmp_path / "data") as served:
        await sweep(served)
        await asyncio.to_thread(served.engine.operations.retry, operation, caller=LOCAL)
        assert (await ended(served, operation)).record.failed == 1
        assert archive.exists()
        monkeypatch.setattr(worker, "SWEEP_EVERY_S", 0.01)
        await age(served, operation, archive)
        await asyncio.to_thread(served.engine.operations.retry, operation, caller=LOCAL)  # wakes the worker; and it has not gone yet
        await ended(served, operation)
        await age(served, operation, archive)
        await until(lambda: not archive.exists())
        with pytest.raises(Conflict) as refused:
            await asyncio.to_thread(served.engine.operations.retry, operation, caller=LOCAL)
        assert refused.value.code == "upload_gone"
        assert (now(served, operation).record.state, now(served, operation).record.failed) == ("done", 1)


async def test_what_can_be_resumed_keeps_its_archive(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a row waits it stays, however old; what nobody knows of goes at the start, and what is new is let be later."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 2)
    with serve(tiny_base, tmp_path / "data") as served:

        def telling(self: worker.Worker, _: str, *, seldom: bool = False) -> None:
            if seldom and self.work is not None:
                self.work.halted.wait(20)  # after the first part

        with monkeypatch.context() as slow:
            slow.setattr(worker.Worker, "_tell", telling)
            operation, archive = await upload(served, packed(sources(served.data, 8), bad=True))
            await until(lambda: now(served, operation).record.done == 2)
            await asyncio.to_thread(served.engine.operations.cancel, operation, caller=LOCAL)
            await until(lambda: served.engine.operations._worker.work is None)
        await age(served, operation, archive)
        await sweep(served)
        new = archive.with_name("new.zip")
        new.write_bytes(b"PK")
        await sweep(served)
        assert archive.exists()
        assert new.exists()
    with serve(tiny_base, tmp_path / "data") as served:
        assert not new.exists()
        await asyncio.to_thread(served.engine.operations.resume, operation, caller=LOCAL)
        record = (await ended(served, operation)).record
        assert (record.state, record.done, record.failed) == ("done", 8, 1)


@pytest.mark.parametrize("fault", ["disk", "size", "client"])
async def test_an_upload_that_breaks_off_leaves_nothing(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A disk that fills up half-way, an archive over the limit, a client that is gone: the reason, and no half of a file."""
    with serve(tiny_base, tmp_path / "data", max_upload=2000) as served:
        write, wrote = anyio.AsyncFile.write, []

        async def some(self: anyio.AsyncFile[bytes], data: bytes) -> int:
            wrote.append(data)
            if fault == "disk" and len(wrote) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return await write(self, data)

        async def sent() -> AsyncIterator[bytes]:
            yield bytes(1500)
            if fault == "client":
                raise asyncio.CancelledError
            yield bytes(1500 if fault == "size" else 100)

        monkeypatch.setattr(anyio.AsyncFile, "write", some)
        expected = {"disk": RegistryUnavailable, "size": PayloadTooLarge, "client": asyncio.CancelledError}[fault]
        with pytest.raises(expected) as refused:
            await served.engine.operations.uploads.keep(sent())
        assert fault != "disk" or (refused.value.code, "No space left" in str(refused.value)) == ("disk_full", True)
        assert wrote
        assert not list(served.engine.operations.uploads.folder.glob("*"))
