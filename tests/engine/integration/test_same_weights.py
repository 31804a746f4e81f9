"""Two tenants register the same weights: they are kept once, and each has its own side of them and nothing of the other's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest

from engine.ids import SHARED_TENANT
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import Doors, opened
from tests.engine.integration.serving import until

BOT, SECRET = "bot", "rival-secret"


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

    async def both(self) -> str:
        """The rival first, then acme; the version id."""
        assert (await self.register(self.rival, self.folders[1], SECRET)).status_code == 201
        answer = await self.register(self.acme, self.folders[0], BOT)
        assert answer.status_code == 201
        self.nothing_of_the_rival(answer.text)
        await until(lambda: self.sides() == 2)
        return answer.json()["id"]

    async def rows(self, key: str) -> list[dict[str, object]]:
        """The list of adapters that a key is shown."""
        return (await self.doors.call("GET", "/api/adapters", key)).json()["adapters"]

    def sides(self) -> int:
        """How many tenants the newest snapshot says have the weights; 0 for one alone, or none yet."""
        return max((len(row.holdings) for row in self.doors.served.engine.snapshot().adapters), default=0)

    async def ask(self, tenant: str, model: str) -> str:
        """One answer; raises what the official client raises."""
        answer = await self.doors.openai(self.keys[tenant]).completions.create(
            model=model, prompt="hello there", max_tokens=4, temperature=0
        )
        return answer.choices[0].text

    def nothing_of_the_rival(self, text: str) -> None:
        """What acme is shown names neither the tenant, nor its alias, nor its folder."""
        for word in (self.rival, SECRET, str(self.folders[1])):
            assert word not in text, word


@pytest.fixture
async def pair(engine: Make) -> AsyncIterator[Pair]:
    """Two tenants with operators' keys, and nothing registered."""
    served = engine()
    async with opened(served) as doors:
        yield Pair(doors, (served.folder("mine"), served.folder("theirs")))


async def test_each_sees_and_calls_its_own_side(pair: Pair) -> None:
    """One row each, with its own name, folder, time and traffic; the weights are kept once; both answer."""
    content = await pair.both()
    assert await pair.ask(pair.acme, BOT) == await pair.ask(pair.rival, SECRET) == await pair.ask(pair.acme, content)
    await pair.ask(pair.rival, SECRET)
    with pytest.raises(openai.NotFoundError):
        await pair.ask(pair.acme, SECRET)
    served = pair.doors.served
    await until(lambda: served.engine.snapshot().adapters[0].requests == 4)
    for tenant, alias, folder, requests in ((pair.acme, BOT, pair.folders[0], 2), (pair.rival, SECRET, pair.folders[1], 2)):
        (row,) = await pair.rows(pair.keys[tenant])
        assert (row["id"], row["alias"], row["aliases"], row["tenant"]) == (content, alias, [alias], tenant)
        assert (row["source"], row["requests"], row["holdings"], row["last_load"]) == (str(folder), requests, [], None)
        listed = [model.id async for model in pair.doors.openai(pair.keys[tenant]).models.list()]
        assert listed == ["tiny", alias]
    (whole,) = await pair.rows(pair.root)
    assert [(side["tenant"], side["aliases"]) for side in whole["holdings"]] == [(pair.rival, [SECRET]), (pair.acme, [BOT])]
    assert whole["requests"] == 4
    assert len(served.host.residency.entries) == 1


@pytest.mark.parametrize(
    "path",
    ["snapshot", "events", "adapters", "adapters/bot", "aliases", "audit", "tenants", "keys", "usage", "operations", "schedules", "bases"],
)
async def test_no_page_tells_of_the_other(pair: Pair, path: str) -> None:
    """Whatever acme looks at while both are at work."""
    content = await pair.both()
    await pair.ask(pair.rival, SECRET)
    await pair.ask(pair.acme, BOT)
    for verb in ("pin", "unpin", "evict", "warm"):
        assert (await pair.doors.call("POST", f"/api/adapters/{content}/{verb}", pair.keys[pair.rival])).status_code == 200, verb
    answer = await pair.doors.call("GET", f"/api/{path}", pair.keys[pair.acme])
    assert answer.status_code == 200
    pair.nothing_of_the_rival(answer.text)


async def test_a_dry_run_knows_nothing(pair: Pair) -> None:
    """The same answer before and after another has registered the weights or taken the name, but for its own time."""

    async def told(alias: str) -> str:
        answer = await pair.register(pair.acme, pair.folders[0], alias, dry_run=True)
        assert answer.status_code == 200
        body = answer.json()
        body["adapter"]["registered_unix"] = body["report"]["checks"] = None
        return json.dumps(body)

    before = await told(SECRET)
    await pair.register(pair.rival, pair.folders[1], SECRET)
    assert await told(SECRET) == before


async def test_one_side_goes_and_the_other_stays(pair: Pair) -> None:
    """Who withdraws its name can call the weights no more, not even by version id; the other goes on."""
    content = await pair.both()
    answer = await pair.doors.call("POST", "/v1/unload_lora_adapter", pair.keys[pair.rival], {"lora_name": SECRET})
    assert answer.status_code == 200
    for name in (SECRET, content):
        with pytest.raises(openai.NotFoundError):
            await pair.ask(pair.rival, name)
    assert await pair.ask(pair.acme, content) == await pair.ask(pair.acme, BOT)
    await until(lambda: not pair.sides())
    assert await pair.rows(pair.keys[pair.rival]) == []
    (row,) = await pair.rows(pair.keys[pair.acme])
    assert (row["alias"], row["source"]) == (BOT, str(pair.folders[0]))


async def test_the_same_as_a_shared_one(pair: Pair) -> None:
    """Weights that the tenant ``shared`` has too: who registered them sees its own side, others the shared one."""
    await pair.register(pair.acme, pair.folders[0], BOT)
    await pair.doors.served.register(pair.folders[1], "everyone", tenant=SHARED_TENANT)
    await pair.ask(pair.acme, BOT)
    await until(lambda: pair.sides() == 2)
    (mine,), (theirs,) = await pair.rows(pair.keys[pair.acme]), await pair.rows(pair.keys[pair.rival])
    assert (mine["alias"], theirs["alias"], theirs["tenant"]) == (BOT, "everyone", SHARED_TENANT)
    assert (theirs["requests"], theirs["source"], theirs["last_used_unix"]) == (0, "", None)


async def test_each_pins_and_evicts_for_itself(pair: Pair) -> None:
    """A pin is its owner's alone; another's evict neither ends it nor drops what it holds, and is answered as if nobody held it."""
    content = await pair.both()
    control = pair.doors.served.entry(BOT)

    async def told(tenant: str, verb: str, alias: str) -> dict[str, object]:
        answer = await pair.doors.call("POST", f"/api/adapters/{alias}/{verb}", pair.keys[tenant], {"reason": f"for {tenant}"})
        if tenant == pair.acme:
            pair.nothing_of_the_rival(answer.text)
        return answer.json()

    await told(pair.acme, "warm", BOT)
    free = (await told(pair.acme, "evict", BOT))["message"]
    assert not control.on_device
    await told(pair.rival, "pin", SECRET)
    await until(lambda: control.on_device and pair.doors.served.engine.snapshot().adapters[0].pinned)
    (mine,), (theirs,) = await pair.rows(pair.keys[pair.acme]), await pair.rows(pair.keys[pair.rival])
    assert (mine["pinned"], mine["pin_reason"], theirs["pinned"]) == (False, "", True)
    assert (await told(pair.acme, "evict", BOT))["message"] == free
    assert (await told(pair.acme, "unpin", BOT))["message"] == "It is not pinned."
    assert control.on_device
    assert set(control.pins) == {pair.rival}
    await told(pair.acme, "pin", BOT)
    await told(pair.rival, "unpin", SECRET)
    assert set(control.pins) == {pair.acme}
    assert (await told(pair.acme, "evict", BOT))["error"]["code"] == "pinned"
    audit = (await pair.doors.call("GET", "/api/audit", pair.keys[pair.rival])).text
    assert f"for {pair.acme}" not in audit
    assert (await pair.doors.call("POST", f"/api/adapters/{content}/unpin", pair.root)).json()["message"] == "Unpinned."
    assert not control.pins
