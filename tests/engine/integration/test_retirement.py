"""A version leaves in order, and comes back whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.caller import Caller
from engine.errors import AdapterRefused, Conflict, Forbidden, ModelNotFound
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Served, expected, first_chunk, read, serve, until
from tests.engine.integration.test_moves import client_of
from tests.tiny import AdapterRecipe

KV = ("k_proj", "v_proj")


async def do(served: Served, verb: str, ref: str, **options: object) -> object:
    """Retire, archive or restore, in a thread."""
    return await asyncio.to_thread(lambda: getattr(served.engine.versions.retirement, verb)(ref, **options))


async def test_a_version_retires_in_order(engine: Make, tiny_base: Path) -> None:
    """New requests get 404 at once; the row and the preview count those in flight; they end as alone; then device and host are free."""
    served = engine()
    folder = await served.add("x", AdapterRecipe(seed=1, modules=KV))
    version = served.entry("x").record.id
    stream = served.submit("x", max_tokens=215)
    head = await first_chunk(stream)
    async with client_of(served) as http:
        preview = (await http.post("/api/adapters/x/retire?preview=1", json={})).json()
        assert (preview["preview"], preview["aliases"], preview["leases"]) == (True, ["x"], 1)
        assert preview["drain_eta_s"] > 0
        assert served.engine.resolve("x").adapter == version
        done = (await http.post("/api/adapters/x/retire", json={"why": "old"})).json()
        assert (done["version"]["state"], done["leases"]) == ("retired", 1)
        for name in ("x", version):
            with pytest.raises(ModelNotFound):
                served.submit(name)
        row = await served.inside(lambda: served.host.observer.row(served.host.residency.entries[version]))
        assert (row.lifecycle, row.leases) == ("retired", 1)
        assert row.drain_eta_s is not None
    rest = await read(stream)
    assert head.token_ids + rest.ids == expected(tiny_base, folder, PROMPT, 215)
    await until(lambda: version not in served.host.residency.entries)
    assert (served.host.pool.count("adapter"), served.host.residency.host.used_bytes) == (0, 0)
    assert served.host.residency.disk.path(version).exists()
    report = await asyncio.to_thread(served.engine.versions.report, "x@1")
    assert (report["state"], report["note"]) == ("retired", "old")


async def test_an_archived_version_comes_back_and_answers_as_before(tiny_base: Path, tmp_path: Path) -> None:
    """Archived, its image leaves the disk tier; restored after a restart it answers as the oracle, without a new registration."""
    with serve(tiny_base, tmp_path) as served:
        folder = await served.add("x", AdapterRecipe(seed=1, modules=KV))
        version = served.entry("x").record.id
        with pytest.raises(Conflict):
            await do(served, "archive", "x")
        await do(served, "retire", "x")
        await until(lambda: version not in served.host.residency.entries)
        await do(served, "archive", "x@1")
        assert not served.host.residency.disk.path(version).exists()
        with pytest.raises(ModelNotFound):
            served.submit(version)
    with serve(tiny_base, tmp_path) as served:
        await do(served, "restore", "x@1")
        assert (await served.ask(version)).ids == expected(tiny_base, folder)
    with serve(tiny_base, tmp_path) as served:
        assert (await served.ask(version)).ids == expected(tiny_base, folder)


@pytest.mark.parametrize("damage", ["byte", "short", "missing", "record"])
async def test_a_damaged_archive_is_refused_and_says_so(engine: Make, damage: str) -> None:
    """A changed byte, a cut file, a lost file, a changed record: refused by name, and the version stays archived."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=1))
    version = served.entry("x").record.id
    await do(served, "retire", "x")
    await until(lambda: version not in served.host.residency.entries)
    await do(served, "archive", "x@1")
    files = sorted((path for path in (served.data / "archive").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    assert len(files) == 2
    file = files[0] if damage == "record" else files[1]
    if damage == "missing":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-100] ^= 1
        file.write_bytes(data[:-1] if damage == "short" else data)
    with pytest.raises(AdapterRefused) as caught:
        await do(served, "restore", "x@1")
    assert caught.value.code == ("archive_missing" if damage == "missing" else "archive_damaged")
    assert (await asyncio.to_thread(served.engine.versions.report, "x@1"))["state"] == "archived"
    assert version not in served.host.residency.entries
    assert not served.host.residency.disk.path(version).exists()


async def archived(served: Served, name: str, folder: Path) -> str:
    """Registered, retired and archived; its id."""
    version = (await served.register(folder, name)).row.id
    await do(served, "retire", name)
    await until(lambda: version not in served.host.residency.entries)
    await do(served, "archive", f"{name}@1")
    return version


async def test_a_deleted_archive_is_gone_and_says_so(engine: Make) -> None:
    """Its files leave the disk, its version stays and cannot be restored; only an admin may, with a line that cannot be taken back."""
    served = engine()
    await archived(served, "x", served.folder("x", AdapterRecipe(seed=1)))
    files = [path for path in (served.data / "archive").rglob("*") if path.is_file()]
    operator = Caller(name="o", kind="user", role="operator", tenant=None)
    with pytest.raises(Forbidden):
        await asyncio.to_thread(lambda: served.engine.versions.removal.delete_archive("x@1", caller=operator))
    async with client_of(served) as http:
        preview = (await http.delete("/api/adapters/x@1/archive?preview=1")).json()
        assert (preview["preview"], preview["bytes"]) == (True, sum(path.stat().st_size for path in files))
        assert all(path.exists() for path in files)
        done = await http.request("DELETE", "/api/adapters/x@1/archive", json={"why": "no room"})
        assert done.json()["bytes"] == preview["bytes"]
        assert not any(path.exists() for path in files)
        refused = (await http.post("/api/adapters/x@1/restore", json={})).json()["error"]
        assert (refused["code"], refused["type"]) == ("archive_deleted", "conflict_error")
        assert (await http.delete("/api/adapters/x@1/archive")).json()["error"]["code"] == "archive_deleted"
    report = await asyncio.to_thread(served.engine.versions.report, "x@1")
    assert (report["state"], report["archive"], report["note"]) == ("archived", None, "no room")
    (line,) = await asyncio.to_thread(lambda: served.engine.audit.lines(action="archive.delete"))
    assert (line.object, line.why, line.after) == ("x@1", "no room", {"state": "archived", "archive": None})
    assert "files are gone" in served.engine.audit.why_not(line)
    with pytest.raises(Conflict):
        await do(served, "restore", "x@1", preview=True)


async def test_an_image_that_another_archive_names_stays(engine: Make, tiny_base: Path) -> None:
    """Two adapters archived with the same weights: one is deleted, the other is restored and answers; at last no file is left."""
    served = engine()
    folder = served.folder("x", AdapterRecipe(seed=1))
    version = await archived(served, "x", folder)
    assert await archived(served, "y", folder) == version
    removal = served.engine.versions.removal
    await asyncio.to_thread(removal.delete_archive, "x@1")
    await do(served, "restore", "y@1")
    assert (await served.ask(version)).ids == expected(tiny_base, folder)
    with pytest.raises(Conflict):
        await asyncio.to_thread(removal.delete_archive, "y@1")
    await do(served, "retire", "y@1")
    await until(lambda: version not in served.host.residency.entries)
    await do(served, "archive", "y@1")
    await asyncio.to_thread(removal.delete_archive, "y@1")
    assert not [path for path in (served.data / "archive").rglob("*") if path.is_file()]


async def test_a_line_keeps_its_old_versions_while_it_has_a_name(engine: Make, tiny_base: Path) -> None:
    """After a move the old version is ready and answers by its id; with the last name both retire, their images stay, and 404 is said."""
    served = engine()
    old = await served.add("x", AdapterRecipe(seed=1, modules=KV))
    first = served.entry("x").record.id
    await served.register(served.folder("new", AdapterRecipe(seed=2, modules=KV)), "x", replace=True)
    assert (await served.ask(first)).ids == expected(tiny_base, old)
    await served.unregister("x")
    await until(lambda: not served.host.residency.entries)
    states = await asyncio.to_thread(served.engine.versions.history, "x")
    assert [version["state"] for version in states] == ["retired", "retired"]
    assert len(list(served.host.residency.disk.folder.glob("*.image"))) == 2
    with pytest.raises(ModelNotFound):
        served.submit(first)
    assert (await served.register(old, "x")).row.id == first
    assert (await served.ask("x")).ids == expected(tiny_base, old)
