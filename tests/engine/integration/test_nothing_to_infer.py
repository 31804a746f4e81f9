"""Whatever one tenant does, another reads the same as before: no number, cursor, sum or refusal of its own moves by it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from engine.errors import InvalidRequest
from engine.gateway.scope import narrow_snapshot
from engine.ids import SHARED_TENANT, TenantId
from tests import tiny
from tests.api.test_routes import ROUTES
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import PASSWORD, Doors, opened
from tests.engine.integration.serving import serve, until

ZORN = TenantId("zorn")
READS = {
    # route: how acme asks for something of its own there
    "/v1/models": ["/v1/models"],
    "/v1/models/{model:path}": ["/v1/models/bot"],
    "/api/snapshot": ["/api/snapshot"],
    "/api/fairness": ["/api/fairness"],
    "/api/events": ["/api/events", "/api/events?after=2&limit=2"],
    "/api/adapters": ["/api/adapters?sort=-registered_unix"],
    "/api/adapters/{ref:path}": ["/api/adapters/bot"],
    "/api/session": ["/api/session"],
    "/api/tenants": ["/api/tenants"],
    "/api/tenants/{tenant}/limits": ["/api/tenants/acme/limits"],
    "/api/users": ["/api/users"],
    "/api/keys": ["/api/keys"],
    "/api/keys/{key}/limits": ["/api/keys/{key}/limits"],
    "/api/usage": ["/api/usage", "/api/usage?tenant=zorn"],
    "/api/operations": ["/api/operations"],
    "/api/operations/{operation}": ["/api/operations/{operation}"],
    "/api/operations/{operation}/rows": ["/api/operations/{operation}/rows"],
    "/api/operations/{operation}/errors.csv": ["/api/operations/{operation}/errors.csv"],
    "/api/adapters/{ref:path}/report": ["/api/adapters/bot@1/report"],
    "/api/adapters/{ref:path}/versions": ["/api/adapters/bot/versions"],
    "/api/aliases": ["/api/aliases"],
    "/api/aliases/{name:path}/history": ["/api/aliases/bot/history", "/api/aliases/bot/history?before=2"],
    "/api/schedules": ["/api/schedules"],
    "/api/gate": ["/api/gate"],
    "/api/audit": ["/api/audit", "/api/audit?before=4&limit=2", "/api/audit?action=alias.move"],
    "/api/bases": ["/api/bases"],
    "/health": ["/health"],
}
NOT_OF_A_TENANT = {"/metrics", "/api/steps", "/api/bases/preview"}
"""For those who see all tenants, or about a folder."""
PREVIEWS = ("warm", "pin", "unpin", "evict", "retire")
OF_THE_MOMENT = {"taken_s", "taken_unix", "last_progress_age_s", "used_unix"}


class World:
    """Acme, which has done a little of everything; and what it reads."""

    def __init__(self, doors: Doors) -> None:
        self.doors, self.served = doors, doors.served
        self.acme, self.zorn = (doors.key(doors.tenant(name), "admin") for name in ("acme", "zorn"))
        self.names = {"key": "", "operation": ""}

    async def ask(self, method: str, path: str, key: str, body: object = None) -> Any:
        """An answer that is no refusal."""
        response = await self.doors.call(method, path, key, body)
        assert response.status_code < 400, (method, path, response.text)
        return response.json() if "json" in response.headers["content-type"] else response.text

    async def works(self, key: str, alias: str, seed: int) -> str:
        """What a tenant's admin does in a day: versions, moves, an undo, a schedule, keys, limits, pins, an import; the id of that."""
        folders = [self.served.folder(f"{alias}-{seed}-{n}", tiny.AdapterRecipe(seed=seed + n)) for n in (0, 1)]
        for folder in folders:
            await self.ask("POST", "/api/adapters", key, {"source": str(folder), "alias": alias, "replace": True})
        await self.ask("POST", f"/api/aliases/{alias}/rollback", key, {"why": "back"})
        (rolled, *_) = (await self.ask("GET", "/api/audit?action=alias.rollback", key))["lines"]
        await self.ask("POST", f"/api/audit/{rolled['key']}/undo", key, {})
        await self.ask("POST", "/api/schedules", key, {"alias": alias, "trigger": "sign_in"})
        made = await self.ask("POST", "/api/keys", key, {"name": "ci", "tenant": self._tenant(key)})
        await self.ask("PUT", f"/api/keys/{made['id']}/limits", key, {"requests_per_minute": 50})
        for verb in ("warm", "pin", "unpin"):
            await self.ask("POST", f"/api/adapters/{alias}/{verb}", key, {"reason": "hot"})
        first = (await self.ask("GET", f"/api/adapters/{alias}/versions", key))["versions"][-1]
        await self.ask("POST", f"/api/adapters/{first['content']}/evict", key, {"tier": "disk"})
        rows = [{"source": str(folders[0]), "alias": f"{alias}-again"}, {"source": "/nowhere", "alias": f"{alias}-bad"}]
        text = "\n".join(map(json.dumps, rows))
        manifest = Path(folders[0]).parent / f"{alias}.jsonl"
        await asyncio.to_thread(manifest.write_text, text)
        begun = await self.ask("POST", "/api/imports", key, {"kind": "manifest", "source": str(manifest)})
        operation = begun["id"]
        await self._ended(operation, key)
        if key == self.acme and not self.names["key"]:
            self.names = {"key": made["id"], "operation": operation}
        return str(operation)

    async def reads(self) -> dict[str, Any]:
        """All that acme can ask for of its own, and what it would be told of changes."""
        found = {path: await self.doors.call("GET", path.format(**self.names), self.acme) for paths in READS.values() for path in paths}
        found |= {
            f"{verb} preview": await self.doors.call("POST", f"/api/adapters/bot/{verb}?preview=1", self.acme, {}) for verb in PREVIEWS
        }
        found["move preview"] = await self.doors.call(
            "POST", "/api/aliases/bot/move?preview=1", self.acme, {"version": 1, "warm": "device"}
        )
        found["no such line"] = await self.doors.call("POST", "/api/audit/999/undo", self.acme, {})
        return {
            name: (answer.status_code, _quiet(answer.json() if "json" in answer.headers["content-type"] else answer.text))
            for name, answer in found.items()
        }

    async def settled(self) -> None:
        """The snapshot is newer than all that was done."""
        for _ in range(2):
            seen = len(self.served.snapshots)
            self.served.host.call(lambda: setattr(self.served.host, "is_dirty", True))
            await until(lambda seen=seen: len(self.served.snapshots) > seen)  # type: ignore[misc]

    def _tenant(self, key: str) -> str:
        return "acme" if key == self.acme else "zorn"

    async def _ended(self, operation: str, key: str) -> None:
        for _ in range(400):
            if (await self.ask("GET", f"/api/operations/{operation}", key))["state"] == "done":
                return
            await asyncio.sleep(0.05)
        pytest.fail("the import does not end")


def _quiet(value: Any) -> Any:
    """Without what moves by the clock alone."""
    if isinstance(value, dict):
        return {name: _quiet(each) for name, each in value.items() if name not in OF_THE_MOMENT}
    return [_quiet(each) for each in value] if isinstance(value, list) else value


def test_every_read_is_asked() -> None:
    """A new route that a tenant may read is added to ``READS``, or is not of a tenant."""
    assert {path for method, path in ROUTES if method == "GET"} == {*READS, *NOT_OF_A_TENANT}


async def test_what_a_rival_does_moves_nothing(engine: Make) -> None:
    """Every read, preview and refusal of acme is to the letter as before; then its own next steps count on without a gap."""
    async with opened(engine(pages=400)) as doors:
        world = World(doors)
        await doors.served.add("everyones", tiny.AdapterRecipe(seed=3), tenant=SHARED_TENANT)
        await world.works(world.acme, "bot", 10)
        await world.settled()
        before = await world.reads()
        assert {name for name, (status, _) in before.items() if status >= 400} == {"no such line", "/api/usage?tenant=zorn"}
        await world.works(world.zorn, "bot", 30)
        await world.works(world.zorn, "secret", 50)
        await world.ask("POST", "/api/adapters/secret/pin", world.zorn, {"reason": "hot"})
        await world.ask("POST", "/api/users", world.zorn, {"name": "rita", "password": PASSWORD, "role": "viewer", "tenant": ZORN})
        for model in ("bot", "secret", "nope"):
            body = {"model": model, "prompt": "hi", "max_tokens": 3}
            await doors.call("POST", "/v1/completions", world.zorn, body)
        await world.settled()
        after = await world.reads()
        assert {name: after[name] for name, told in before.items() if after[name] != told} == {}
        assert not re.search("zorn|secret|rita", json.dumps([told for name, told in after.items() if "zorn" not in name]))
        numbers = [line["key"] for line in after["/api/audit"][1]["lines"]]
        assert numbers == list(range(len(numbers), 0, -1))
        await world.works(world.acme, "bot", 70)
        lines = (await world.ask("GET", "/api/audit", world.acme))["lines"]
        assert [line["key"] for line in lines] == list(range(len(lines), 0, -1))
        events = (await world.ask("GET", f"/api/events?after={after['/api/events'][1]['newest']}", world.acme))["events"]
        assert [event["number"] for event in events] == [after["/api/events"][1]["newest"] + 1 + place for place in range(len(events))]


async def test_nothing_counts_what_others_did_before(tiny_base: Path, tmp_path: Path) -> None:
    """Every whole number that acme reads is the same on a node of its own and on one where another was at work before it."""
    found = []
    for name, companions in (("alone", 0), ("crowded", 2)):
        with serve(tiny_base, tmp_path / name, pages=400) as served:
            async with opened(served) as doors:
                world = World(doors)
                for number in range(companions):
                    await world.works(world.zorn, f"secret{number}", 30 + 10 * number)
                await world.works(world.acme, "bot", 10)
                await world.settled()
                found.append({path: (status, _whole_numbers(told)) for path, (status, told) in (await world.reads()).items()})
    alone, crowded = found
    assert {path: _apart(told, crowded[path]) for path, told in alone.items() if crowded[path] != told} == {}


async def test_what_could_be_chained_is_left_out(engine: Make) -> None:
    """The log's hashes tell who has two lines in a row whether there is one between; a schedule's key does not count; all else does."""
    async with opened(engine(pages=400)) as doors:
        world = World(doors)
        for number in range(2):
            await world.works(world.acme, f"bot{number}", 10 + 10 * number)
        assert {line["hash"] for line in (await world.ask("GET", "/api/audit", world.acme))["lines"]} == {""}
        keys = [one["key"] for one in (await world.ask("GET", "/api/schedules", world.acme))["schedules"]]
        assert min(keys) > 1000
        lines = doors.served.engine.audit.lines(limit=500)
        assert all(line.hash for line in lines)
        assert [line.key for line in lines] == list(range(len(lines), 0, -1))


def _apart(one: Any, other: Any) -> Any:
    """Where two answers differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _apart(one.get(name), other.get(name)) for name in {*one, *other} if one.get(name) != other.get(name)}
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [_apart(*pair) for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return one, other


def _whole_numbers(value: Any) -> Any:
    """Only those, where they are; no times, and no schedule's key, which is drawn at random."""
    if isinstance(value, dict):
        skipped = {"created", "key"} if "trigger" in value else {"created"}
        return {name: _whole_numbers(each) for name, each in value.items() if name not in skipped and not name.endswith("_unix")}
    if isinstance(value, list):
        rows = all(isinstance(each, dict) and "num_matched" in each for each in value)  # adapters come in any order
        return [_whole_numbers(each) for each in (sorted(value, key=lambda row: row["registered_unix"]) if rows else value)]
    return value if isinstance(value, int) else None


@pytest.mark.parametrize("who", ["acme", "all"])
async def test_a_refusal_tells_a_tenant_no_sum(engine: Make, who: str) -> None:
    """Where others' pins leave too little, a tenant hears what it needs; an operator of all tenants the whole sum."""
    async with opened(engine(pages=84)) as doors:
        world = World(doors)
        large = tiny.AdapterRecipe(seed=1, rank=32, modules=tiny.MODULES)
        for tenant in ("zorn", "acme"):
            await doors.served.add(tenant, large, tenant=TenantId(tenant))
        pages = doors.served.entry("acme").record.num_pages
        await world.ask("POST", "/api/adapters/zorn/pin", world.zorn, {})
        refused = await doors.call("POST", "/api/adapters/acme/pin", world.acme if who == "acme" else doors.key(None, "operator"), {})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (409, "pin_would_not_fit")
        assert re.findall(r"\d+", error["message"]) == [str(pages)]
        if who == "acme":
            assert ("arithmetic" in error, error["expected"], error["found"]) == (False, None, None)
        else:
            assert {"Arena", "Pinned after", "Needed"} <= {line["label"] for line in error["arithmetic"]}


async def test_an_id_that_another_has_chosen_changes_nothing(engine: Make) -> None:
    """While another's request runs under it: the same draws, the same answer, and in acme's windows the id as it gave it."""
    async with opened(engine()) as doors:
        world = World(doors)

        async def drawn() -> str:
            body = {"model": "tiny", "prompt": "hi", "max_tokens": 12, "temperature": 1.0, "ignore_eos": True}
            headers = {"authorization": f"Bearer {world.acme}", "x-request-id": "job-1"}
            answer = (await doors.client.post("/v1/completions", json=body, headers=headers)).json()
            return json.dumps({name: value for name, value in answer.items() if name != "created"})

        before = await drawn()
        theirs = doors.served.submit(None, tenant="zorn", request_id="job-1", max_tokens=200)
        await until(lambda: bool(doors.served.host.scheduler.running))
        doors.served.snapshots.clear()
        assert await drawn() == before
        seen = [narrow_snapshot(snapshot, TenantId("acme"), event=0).requests for snapshot in doors.served.snapshots]
        assert {str(row.id) for requests in seen for row in (*requests.running, *requests.waiting)} <= {"job-1"}
        theirs.cancel()


@pytest.mark.parametrize(("pages", "reach", "is_told"), [(16, "own", False), (16, "all", True), (400, "own", True)])
async def test_how_long_a_prompt_fits_tells_nothing_of_the_pool(
    engine: Make, pages: int, reach: Literal["own", "all"], *, is_told: bool
) -> None:
    """The base's own limit is told to all; what the arena holds, which others' pins move, to those who see all tenants."""
    served = engine(pages=pages)
    prompt = tuple([40] * 256)
    with pytest.raises(InvalidRequest) as refusal:
        served.submit(None, prompt, tenant="acme", reach=reach)
    most = served.host.max_sequence_tokens - 1
    assert refusal.value.code == "context_length_exceeded"
    assert (refusal.value.expected, re.findall(r"\d+", refusal.value.message)) == (
        (most, ["256", str(most)]) if is_told else (None, ["256"])
    )
