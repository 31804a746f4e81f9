"""While the registry or the disk is away, changes are refused and what is served goes on; afterwards all works without a restart."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import event

from engine.adapters import image
from engine.alias import AliasName
from engine.allowance import Allowance
from engine.errors import OUTCOME_UNKNOWN, RegistryUnavailable
from engine.ids import DEFAULT_TENANT
from engine.registry import database
from tests.engine.database_faults import Fault, full, locked, read_only, vanished
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, first_chunk, read, until
from tests.postgres import PostgresServer
from tests.tiny import AdapterRecipe


def memory(served: Served) -> tuple[object, ...]:
    """All that a change could leave half done."""
    catalog, disk = served.host.catalog, served.host.residency.disk
    keys, limits = served.engine.tenants.keys.list(), served.engine.tenants.limits(DEFAULT_TENANT)
    return dict(catalog.aliases), dict(catalog.versions), keys, limits, sorted(path.name for path in disk.folder.iterdir())


def changes(served: Served, new: Path) -> list[Callable[[], object]]:
    """Of each kind, large enough to need space."""
    engine, why = served.engine, "because " * 5000
    return [
        lambda: engine.register(str(new), alias="new", why=why),
        lambda: engine.register(str(new), alias="x", replace=True, why=why),
        lambda: engine.versions.drop("x", why=why),
        lambda: engine.tenants.set_limits(DEFAULT_TENANT, Allowance(max_running=1), why=why),
        lambda: [engine.tenants.keys.create("k" * 200, tenant=DEFAULT_TENANT) for _ in range(20)],
    ]


async def check_goes_on(served: Served, base: Path, fault: Fault, *, most: int = 5) -> None:
    """A stream that runs, new requests and refused changes, all while the fault lasts; then the changes work."""
    folder = await served.add("x", AdapterRecipe(seed=41))
    new = served.folder("new", AdapterRecipe(seed=42))
    before = memory(served)
    stream = served.submit("x", max_tokens=120)
    first = await first_chunk(stream)
    with fault(served.host.catalog.store):
        for change in changes(served, new)[:most]:
            with pytest.raises(RegistryUnavailable) as refused:
                await asyncio.to_thread(change)
            assert refused.value.status == 503
            assert "Nothing was changed" in refused.value.message
            assert memory(served) == before
        assert (await served.ask("x")).ids == expected(base, folder)
        assert first.token_ids + (await read(stream)).ids == expected(base, folder, num_tokens=120)
    await served.register(new, "new")
    assert (await served.ask("new")).ids == expected(base, new)


@pytest.mark.parametrize("fault", [locked, vanished, read_only])
async def test_sqlite_fails(engine: Make, tiny_base: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """The file is locked, gone or read-only."""
    monkeypatch.setattr(database, "BUSY_MS", 100)
    await check_goes_on(engine(), tiny_base, fault)


async def test_sqlite_is_full(engine: Make, tiny_base: Path) -> None:
    """What needs space is refused; dropping a name does not, and is done."""
    await check_goes_on(engine(), tiny_base, full, most=2)


@pytest.mark.postgresql
async def test_postgresql_stops(engine: Make, tiny_base: Path, postgres_server: PostgresServer) -> None:
    """The server is gone for a while."""
    await check_goes_on(engine(database=postgres_server.new_database()), tiny_base, lambda _: postgres_server.stopped())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
async def test_an_image_that_cannot_be_written(engine: Make, tiny_base: Path, code: int) -> None:
    """A disk that is full after half an image, or read-only: refused, and no file is left."""
    served = engine()
    folder = await served.add("x", AdapterRecipe(seed=41))
    new, before = served.folder("new", AdapterRecipe(seed=42)), memory(served)
    write = image._write_all

    def half(file: object, data: bytes) -> None:
        write(file, data[: len(data) // 2])  # type: ignore[arg-type]
        raise OSError(code, os.strerror(code))

    with patch.object(image, "_write_all", half), pytest.raises(RegistryUnavailable, match=os.strerror(code)) as refused:
        await served.register(new, "new")
    assert refused.value.param == "data"
    assert memory(served) == before
    assert (await served.ask("x")).ids == expected(tiny_base, folder)
    await served.register(new, "new")
    assert (await served.ask("new")).ids == expected(tiny_base, new)


@pytest.mark.postgresql
async def test_a_registration_whose_answer_was_lost_serves_once_it_is_known(
    engine: Make, tiny_base: Path, postgres_server: PostgresServer
) -> None:
    """The server stores it and is gone before it can say so: the caller hears that nobody knows, and when it is back the name answers."""
    served = engine(database=postgres_server.new_database())
    old = await served.add("x", AdapterRecipe(seed=41))
    new = served.folder("new", AdapterRecipe(seed=42))
    name = AliasName(DEFAULT_TENANT, "x")
    before, writer = served.entry("x").record.id, served.host.catalog.store.database.writer

    def store_and_go(connection: object) -> None:
        driver = connection.connection.driver_connection  # type: ignore[attr-defined]
        driver.commit()
        postgres_server.stop()
        driver.pgconn.finish()

    def arm(cursor: object, given: object, statement: str, *_: object) -> None:
        del cursor, given
        if statement.startswith("INSERT INTO audit"):
            event.listen(writer, "commit", store_and_go, once=True)

    event.listen(writer, "before_cursor_execute", arm)
    try:
        with pytest.raises(RegistryUnavailable) as refused:
            await served.register(new, "x", replace=True)
        event.remove(writer, "before_cursor_execute", arm)
        assert refused.value.code == OUTCOME_UNKNOWN
        assert (await served.ask("x")).ids == expected(tiny_base, old)
    finally:
        postgres_server.start()
    catalog, entries = served.host.catalog, served.host.residency.entries
    await until(lambda: catalog.aliases[name].adapter != before and bool(entries[catalog.aliases[name].adapter].aliases))
    await served.control("evict", "x", tier="disk")
    assert (await served.ask("x")).ids == expected(tiny_base, new)
    await served.check()
