"""Keys, limits and what one tenant may learn of another, on a real engine behind its doors, with keys on."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from engine.allowance import Allowance
from engine.api.log_lines import OneLineFormatter
from engine.ids import SHARED_TENANT
from tests import tiny
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import Doors, opened
from tests.engine.integration.serving import until

SECRET = "the launch code is 4711, tell nobody before the 12th of May; " * 2
NUM_TOKENS = 150
FORGED = "x\r\n2026-01-01 INFO admin granted\x1b[2J\u2028\x00"


async def complete(doors: Doors, key: str, **body: Any) -> httpx.Response:
    """One completion."""
    given = {"model": "tiny", "prompt": "hi", "max_tokens": 4, "ignore_eos": True} | body
    return await doors.call("POST", "/v1/completions", key, given)


def cached(response: httpx.Response) -> int:
    """Prompt tokens that were not computed."""
    assert response.status_code == 200, response.text
    return int(response.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_a_tenant_cannot_probe_anothers_prompts(engine: Make) -> None:
    """A tenant's own repeat is cached; no other finds it or a prefix of it, whatever salt or user it names (D13)."""
    async with opened(engine()) as doors:
        await doors.served.add("everyone", tiny.AdapterRecipe(seed=5), tenant=SHARED_TENANT)
        ours = doors.key(doors.tenant("tee"))
        for model in ("tiny", "everyone"):
            asked = {"model": model, "prompt": SECRET, "user": "tee"}
            assert cached(await complete(doors, ours, **asked)) == 0
            assert cached(await complete(doors, ours, **asked)) > 0
            for number, probe in enumerate(({}, {"user": "tee"}, {"prompt": SECRET[: len(SECRET) // 2]}, {"metadata": {"tenant": "tee"}})):
                theirs = doors.key(doors.tenant(f"{model}-{number}"))
                assert cached(await complete(doors, theirs, **asked | probe)) == 0, probe
            salted = await complete(doors, doors.key(doors.tenant(f"{model}-salt")), **asked, cache_salt="tee")
            assert salted.status_code == 400 or cached(salted) == 0


@pytest.mark.parametrize("scope", ["tenant", "key"])
async def test_a_month_goes_on_after_a_restart(engine: Make, scope: str) -> None:
    """What was used counts against the budget of the next engine on the same data, to the token."""
    served, key = engine(), ""
    for turn in range(2):
        async with opened(served) as doors:
            if turn == 0:
                record = doors.tenants.keys.create("k", tenant=doors.tenant("tee"))
                key, budget = record.token, Allowance(monthly_tokens=20)
                if scope == "tenant":
                    doors.tenants.set_limits("tee", budget)
                else:
                    doors.tenants.keys.set_limits(record.record.id, budget)
            used = (await complete(doors, key, prompt=[40, 41, 42], max_tokens=5)).json()["usage"]["total_tokens"]
            assert used == 8
            refusal = await complete(doors, key, prompt=[40, 41, 42], max_tokens=10 if turn == 0 else 2)
            assert (refusal.status_code, refusal.json()["error"]["code"]) == (429, "insufficient_quota")
            if turn == 1:
                assert (await complete(doors, key, prompt=[40, 41, 42], max_tokens=1)).status_code == 200
        if turn == 0:
            served.engine.stop()
            served = engine()


async def test_fifty_at_once_are_counted_to_the_last(engine: Make) -> None:
    """Of 50 calls over two keys as many get in as the tenant's month and the narrower key allow, and no token more is charged."""
    async with opened(engine()) as doors:
        tee = doors.tenant("tee", Allowance(monthly_tokens=20 * 8 + 7))
        keys = [doors.tenants.keys.create("k", tenant=tee) for _ in range(2)]
        doors.tenants.keys.set_limits(keys[1].record.id, Allowance(requests_per_minute=3))
        calls = [complete(doors, keys[number % 2].token, prompt=[40, 41, 42], max_tokens=5) for number in range(50)]
        answers = await asyncio.gather(*calls)
        accepted = [number for number, answer in enumerate(answers) if answer.status_code == 200]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert len(accepted) == 20
        assert sum(number % 2 for number in accepted) == 3
        assert doors.tenants.use("tee").tokens_month == 160


@pytest.mark.parametrize("how", ["revoked", "rotated", "suspended", "expired"])
async def test_a_key_that_ends_while_it_is_used(engine: Make, how: str) -> None:
    """What it had asked for is answered whole, running or waiting; from then on it asks for nothing."""
    async with opened(engine()) as doors:
        tee = doors.tenant("tee", Allowance(max_running=1))
        ends_unix = time.time() + 1.0 if how == "expired" else None
        made = doors.tenants.keys.create("k", tenant=tee, expires_unix=ends_unix)
        asked = [asyncio.create_task(complete(doors, made.token, max_tokens=NUM_TOKENS)) for _ in range(2)]
        await until(lambda: doors.tenants.use(tee).requests_minute == 2 and bool(doors.served.host.scheduler.running))
        if how == "revoked":
            doors.tenants.keys.revoke(made.record.id)
        elif how == "rotated":
            doors.tenants.keys.rotate(made.record.id)
        elif how == "suspended":
            doors.tenants.suspend(tee)
        await until(lambda: ends_unix is None or time.time() > ends_unix)
        assert (await complete(doors, made.token)).status_code == (403 if how == "suspended" else 401)
        for answer in await asyncio.gather(*asked):
            assert answer.json()["usage"]["completion_tokens"] == NUM_TOKENS


class Lines(logging.Handler):
    """What would stand in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(self.format(record))


async def test_nothing_forges_a_line(engine: Make) -> None:
    """Names, ids and reasons with line ends and terminal codes are refused or told escaped: a line an event, clean headers (D11)."""
    log = Lines()
    logging.getLogger().addHandler(log)
    logging.getLogger("loradeck").setLevel(logging.INFO)
    try:
        async with opened(engine()) as doors:
            tee = doors.tenant("tee")
            await doors.served.add("bot", tenant=tee)
            keys = [doors.key(tee), doors.key(tee, "admin"), doors.key(None, "admin")]
            calls: tuple[tuple[str, str, object], ...] = (
                ("POST", "/v1/completions", {"model": FORGED, "prompt": "x"}),
                ("GET", f"/v1/models/{quote(FORGED)}", None),
                ("GET", f"/v1/models/{quote(FORGED.replace(chr(13) + chr(10), ' '))}", None),
                ("GET", f"/{quote(FORGED)}", None),
                ("POST", "/api/adapters", {"source": FORGED, "alias": FORGED}),
                ("POST", "/api/adapters/bot/pin", {"tier": "host", "reason": FORGED}),
                ("POST", "/api/keys", {"name": FORGED, "tenant": "tee"}),
                ("POST", "/api/users", {"name": FORGED, "password": "correct horse battery", "role": "viewer", "tenant": "tee"}),
                ("POST", "/api/tenants", {"id": FORGED}),
                ("POST", "/api/session", {"name": FORGED, "password": FORGED}),
            )
            for key in keys:
                for method, path, body in calls:
                    headers = {"authorization": f"Bearer {key}", "x-request-id": FORGED.encode("latin-1", "ignore")}
                    answer = await doors.client.request(method, path, json=body, headers=headers)
                    assert answer.status_code < 500, (path, answer.text)
                    assert answer.headers.get("x-request-id", "req-").startswith("req-")
                    assert all(value.isprintable() for value in answer.headers.values())
            told = await doors.call("GET", "/api/audit?limit=1000", keys[2])
            assert told.content.isascii() or b"\n" not in told.content
            assert doors.served.engine.audit.verify() is None
    finally:
        logging.getLogger().removeHandler(log)
    assert any("admin granted" in line for line in log.lines)
    assert [line for line in log.lines if not line.isprintable()] == []
