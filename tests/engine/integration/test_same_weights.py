"""Two tenants register the same weights: each has a version of its own, and neither sees, times or infers anything of the other's."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import openai
import pytest

from engine.adapters import identity, image
from engine.errors import LoradeckError
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId, TenantId, owned_id
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import Doors, opened
from tests.engine.integration.serving import expected, outcome, serve, until
from tests.tiny import AdapterRecipe

BOT, SECRET = "bot", "rival-secret"
AS_IT_WAS = (
    "DROP TABLE pin",
    'CREATE TABLE pin (content VARCHAR, tenant VARCHAR, tier VARCHAR, until_unix FLOAT, reason VARCHAR, "by" VARCHAR, at_unix FLOAT)',
    "UPDATE alembic_version SET version_num = 'm0007'",
)
"""A registry from before ids told owners apart."""
WINDOWS = [
    "snapshot", "fairness", "events", "adapters", "adapters/bot", "adapters/bot/versions", "adapters/bot/report", "aliases",
    "aliases/bot/history", "audit", "tenants", "keys", "usage", "operations", "schedules", "bases",
]  # fmt: skip


class Pair:
    """Acme's ``bot`` and the rival's ``rival-secret`` are the same weights, from two folders."""

    def __init__(self, doors: Doors, folders: tuple[Path, Path]) -> None:
        self.doors, self.folders = doors, folders
        self.acme, self.rival = doors.tenant("acme"), doors.tenant("rival")
        self.keys = {tenant: doors.key(tenant, "operator") for tenant in (self.acme, self.rival)}
        self.root = doors.key(None, "admin")

    async def register(self, tenant: str, folder: Path, alias: str, **more: object) -> httpx.Response:
        """Over HTTP, with the tenant's key."""
        return await self.doors.call("POST", "/api/adapters", self.keys[tenant], {"source": str(folder), "alias": alias, **more})

    async def both(self, **more: object) -> tuple[str, str]:
        """The rival first, then acme; the version ids of acme and of the rival."""
        theirs = await self.register(self.rival, self.folders[1], SECRET, **more)
        mine = await self.register(self.acme, self.folders[0], BOT, **more)
        assert (theirs.status_code, mine.status_code) == (201, 201)
        self.nothing_of_the_rival(mine.text, theirs.json()["id"])
        return mine.json()["id"], theirs.json()["id"]

    async def rows(self, key: str) -> list[dict[str, Any]]:
        """The list of adapters that a key is shown."""
        return (await self.doors.call("GET", "/api/adapters", key)).json()["adapters"]

    async def tiers(self, tenant: str) -> dict[str, str]:
        """Where each adapter is, in the tenant's words: its snapshot, its list and its models say the same."""
        key = self.keys[tenant]
        snapshot = (await self.doors.call("GET", "/api/snapshot", key)).json()
        seen = [(row["alias"], row["tier"]) for row in snapshot["adapters"]]
        listed = [(row["alias"], row["tier"]) for row in await self.rows(key)]
        assert listed == seen
        for alias, tier in seen:
            card = (await self.doors.call("GET", f"/v1/models/{alias}", key)).json()
            assert card["x_residency"]["tier"] == tier
        return dict(seen)

    async def to_disk(self) -> None:
        """Acme's leave for disk, by its own hand, and the snapshot says so."""
        assert (await self.doors.call("POST", f"/api/adapters/{BOT}/evict", self.keys[self.acme], {"tier": "disk"})).status_code == 200
        await until(lambda: any((row.alias, row.tier) == (BOT, "disk") for row in self.doors.served.engine.snapshot().adapters))

    async def ask(self, tenant: str, model: str) -> str:
        """One answer; raises what the official client raises."""
        answer = await self.doors.openai(self.keys[tenant]).completions.create(
            model=model, prompt="hello there", max_tokens=4, temperature=0
        )
        return answer.choices[0].text

    def nothing_of_the_rival(self, text: str, version: str) -> None:
        """What acme is shown names neither the tenant, nor its alias, nor its folder, nor its version."""
        for word in (self.rival, SECRET, str(self.folders[1]), version):
            assert word not in text, word


@pytest.fixture
async def pair(engine: Make) -> AsyncIterator[Pair]:
    """Two tenants with operators' keys, and nothing registered."""
    served = engine()
    async with opened(served) as doors:
        yield Pair(doors, (served.folder("mine"), served.folder("theirs")))


async def test_each_sees_and_calls_its_own(pair: Pair) -> None:
    """Two versions of one digest; one row each, with its own name, folder and traffic; both answer, and nobody by the other's id."""
    mine, theirs = await pair.both()
    assert mine != theirs
    assert await pair.ask(pair.acme, BOT) == await pair.ask(pair.rival, SECRET) == await pair.ask(pair.acme, mine)
    await pair.ask(pair.rival, SECRET)
    for name in (SECRET, theirs):
        with pytest.raises(openai.NotFoundError):
            await pair.ask(pair.acme, name)
    served = pair.doors.served
    await until(lambda: sum(row.requests for row in served.engine.snapshot().adapters) == 4)
    for tenant, version, alias, folder in ((pair.acme, mine, BOT, pair.folders[0]), (pair.rival, theirs, SECRET, pair.folders[1])):
        (row,) = await pair.rows(pair.keys[tenant])
        assert (row["id"], row["alias"], row["aliases"], row["tenant"]) == (version, alias, [alias], tenant)
        assert (row["source"], row["requests"], row["loads"]) == (str(folder), 2, 1)
        listed = [model.id async for model in pair.doors.openai(pair.keys[tenant]).models.list()]
        assert listed == ["tiny", alias]
    digests = {record.digest for record in served.host.catalog.records.values()}
    assert (len(digests), set(served.host.residency.entries)) == (1, {mine, theirs})


async def test_where_one_keeps_them_the_other_neither_sees_nor_feels(pair: Pair) -> None:
    """The rival's are on the device and pinned, acme's on disk, by every word acme is told; its first request loads from disk itself."""
    mine, theirs = await pair.both()
    served = pair.doors.served
    await pair.to_disk()
    for verb in ("warm", "pin"):
        assert (await pair.doors.call("POST", f"/api/adapters/{SECRET}/{verb}", pair.keys[pair.rival])).status_code == 200, verb
    await pair.ask(pair.rival, SECRET)
    await until(lambda: any(row.pinned for row in served.engine.snapshot().adapters))
    assert await pair.tiers(pair.rival) == {SECRET: "device"}
    assert await pair.tiers(pair.acme) == {BOT: "disk"}
    (row,) = await pair.rows(pair.keys[pair.acme])
    assert (row["pinned"], row["requests"], row["loads"]) == (False, 0, 1)
    warm = (await pair.doors.call("POST", f"/api/adapters/{BOT}/warm?preview=1", pair.keys[pair.acme])).json()
    sums = {line["label"]: line["pages"] for line in warm["arithmetic"]}
    assert warm["adapter"]["tier"] == "disk"
    assert sums == {"Yours on the device now": 0, f"Load {BOT}": row["pages"], "Yours after": row["pages"]}
    assert (await pair.doors.call("GET", "/metrics", pair.keys[pair.acme])).status_code == 403
    assert AdapterId(mine) not in served.host.residency.host
    await pair.ask(pair.acme, BOT)
    await until(lambda: all(row.tier == "device" for row in served.engine.snapshot().adapters))
    (row,) = await pair.rows(pair.keys[pair.acme])
    assert (row["loads"], row["last_load"]["from_tier"], row["cold_starts"]) == (2, "disk", 1)
    assert served.entry(SECRET).loads == 1
    assert not set(served.entry(BOT).pages) & set(served.entry(SECRET).pages)
    assert served.host.residency.disk.path(AdapterId(theirs)).exists()


@pytest.mark.parametrize("path", WINDOWS)
async def test_no_page_tells_of_the_other(pair: Pair, path: str) -> None:
    """Whatever acme looks at while both are at work."""
    _, theirs = await pair.both()
    await pair.ask(pair.rival, SECRET)
    await pair.ask(pair.acme, BOT)
    for verb in ("pin", "unpin", "evict", "warm"):
        assert (await pair.doors.call("POST", f"/api/adapters/{SECRET}/{verb}", pair.keys[pair.rival])).status_code == 200, verb
    answer = await pair.doors.call("GET", f"/api/{path}", pair.keys[pair.acme])
    assert answer.status_code == 200
    pair.nothing_of_the_rival(answer.text, theirs)


async def test_a_dry_run_knows_nothing(pair: Pair) -> None:
    """The same answer before and after another has registered the weights or taken the name, but for its own time."""

    async def told(alias: str) -> str:
        answer = await pair.register(pair.acme, pair.folders[0], alias, dry_run=True)
        assert answer.status_code == 200
        body = answer.json()
        body["adapter"]["registered_unix"] = None
        return json.dumps(body)

    before = await told(SECRET)
    await pair.register(pair.rival, pair.folders[1], SECRET)
    await pair.ask(pair.rival, SECRET)
    assert await told(SECRET) == before


async def test_one_goes_and_the_other_stays(pair: Pair) -> None:
    """Who withdraws its name has nothing left, on disk neither; the other goes on."""
    mine, theirs = await pair.both()
    answer = await pair.doors.call("POST", "/v1/unload_lora_adapter", pair.keys[pair.rival], {"lora_name": SECRET})
    assert answer.status_code == 200
    for name in (SECRET, theirs):
        with pytest.raises(openai.NotFoundError):
            await pair.ask(pair.rival, name)
    assert await pair.ask(pair.acme, mine) == await pair.ask(pair.acme, BOT)
    await until(lambda: set(pair.doors.served.host.residency.entries) == {mine})
    await until(lambda: [row.id for row in pair.doors.served.engine.snapshot().adapters] == [mine])
    assert await pair.rows(pair.keys[pair.rival]) == []
    await asyncio.to_thread(pair.doors.served.engine.versions.retirement.archive, f"{SECRET}@1", tenant=pair.rival)
    assert [path.stem for path in pair.doors.served.host.residency.disk.folder.glob("*.image")] == [mine]


async def test_the_same_as_a_shared_one(pair: Pair) -> None:
    """Of a shared adapter all see where it is and nothing of its traffic; who registered the same weights has its own besides."""
    await pair.register(pair.acme, pair.folders[0], BOT)
    await pair.to_disk()
    await pair.doors.served.register(pair.folders[1], "everyone", tenant=SHARED_TENANT)
    await pair.ask(pair.rival, "everyone")
    await until(lambda: {row.tier for row in pair.doors.served.engine.snapshot().adapters} == {"device", "disk"})
    assert await pair.tiers(pair.acme) == {BOT: "disk", "everyone": "device"}
    (shared,) = await pair.rows(pair.keys[pair.rival])
    assert (shared["alias"], shared["tenant"], shared["tier"]) == ("everyone", SHARED_TENANT, "device")
    assert (shared["requests"], shared["source"], shared["last_used_unix"], shared["last_load"]) == (0, "", None, None)


async def test_twice_by_one_tenant_is_one(pair: Pair) -> None:
    """The same weights under two names of one tenant are one version in one place, and need no second load."""
    first = (await pair.register(pair.acme, pair.folders[0], BOT)).json()["id"]
    second = await pair.register(pair.acme, pair.folders[1], "bot-too")
    assert (second.status_code, second.json()["id"]) == (201, first)
    await pair.ask(pair.acme, "bot-too")
    assert (set(pair.doors.served.host.residency.entries), pair.doors.served.entry(BOT).loads) == ({first}, 1)


async def test_what_was_kept_once_is_each_owners_own_after_an_upgrade(tiny_base: Path, tmp_path: Path) -> None:
    """Images under the id of content and base alone are taken over by all who have them; what was archived so comes back too."""
    tenants = [TenantId("acme"), TenantId("rival"), DEFAULT_TENANT]
    with patch.object(identity, "owned_id", lambda unowned, _owner: AdapterId(unowned)), serve(tiny_base, tmp_path) as before:
        folder = before.folder("one")
        for tenant in tenants:
            await before.register(folder, "x", tenant=tenant)
        old = before.folder("old", AdapterRecipe(seed=9))
        await before.register(old, "old", tenant=tenants[0])
        for step in (before.engine.versions.retirement.retire, before.engine.versions.retirement.archive):
            await asyncio.to_thread(step, "old@1", tenant=tenants[0])
        unowned = before.entry("x").record.id
        images = before.host.residency.disk.folder
    assert [path.stem for path in images.glob("*.image")] == [unowned]
    with closing(sqlite3.connect(tmp_path / "loradeck.db", isolation_level=None)) as registry:
        for statement in AS_IT_WAS:
            registry.execute(statement)
    with serve(tiny_base, tmp_path) as after:
        ids = {owned_id(unowned, tenant) for tenant in tenants}
        assert {path.stem for path in images.glob("*.image")} == ids == set(after.host.residency.entries)
        for tenant in tenants:
            answer = await after.ask("x", tenant=tenant, reach="own")
            assert (answer.ids, answer.record.adapter) == (expected(tiny_base, folder), owned_id(unowned, tenant))
        back = await asyncio.to_thread(after.engine.versions.retirement.restore, "old@1", tenant=tenants[0])
        assert (await after.ask(back.version.id, tenant=tenants[0], reach="own")).ids == expected(tiny_base, old)


async def test_images_without_room_for_their_new_names_are_kept(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A start on a full disk serves what could be written again and says how many bytes are needed; one with room serves the rest."""
    acme, size = TenantId("acme"), 0
    with patch.object(identity, "owned_id", lambda unowned, _owner: AdapterId(unowned)), serve(tiny_base, tmp_path) as before:
        folders = {name: before.folder(name, AdapterRecipe(seed=seed)) for seed, name in enumerate("xyz")}
        for name, folder in folders.items():
            await before.register(folder, name, tenant=acme)
            size = before.host.residency.disk.path(before.entry(name).record.id).stat().st_size
    with closing(sqlite3.connect(tmp_path / "loradeck.db", isolation_level=None)) as registry:
        for statement in AS_IT_WAS:
            registry.execute(statement)
    write, left = image._write_all, itertools.count(2, -1)  # a head and pages: the first image

    def some(file: FileIO, data: bytes) -> None:
        if next(left) <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, data)

    with monkeypatch.context() as small:
        small.setattr(image, "_write_all", some)
        with serve(tiny_base, tmp_path) as after:
            assert f"2 adapters cannot answer: their images in {after.host.residency.disk.folder}" in caplog.text
            assert f"Free {2 * size} bytes there" in caplog.text
            found = [await outcome(after.submit(name, tenant=acme, reach="own")) for name in folders]
            told = [one.code if isinstance(one, LoradeckError) else one.ids for one in found]
            served = [expected(tiny_base, folder) for folder in folders.values()]
            assert [code for code in told if code not in served] == 2 * ["image_unreadable"]
            assert len(list(after.host.residency.disk.folder.iterdir())) == 3
    with serve(tiny_base, tmp_path) as after:
        for name, folder in folders.items():
            assert (await after.ask(name, tenant=acme, reach="own")).ids == expected(tiny_base, folder)
        assert {path.stem for path in after.host.residency.disk.folder.glob("*.image")} == set(after.host.residency.entries)
