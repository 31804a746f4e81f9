"""Limits hold to the last call over HTTP, whatever comes at once, and others do not feel them (B39)."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import openai
import pytest

from engine.allowance import Allowance
from tests.engine.integration.conftest import Make
from tests.engine.integration.doors import Doors, opened

LIMITS = Allowance(max_running=2, requests_per_minute=10, tokens_per_minute=500)


async def ask(client: openai.AsyncOpenAI, prompt: str, max_tokens: int, *, stream: bool) -> httpx.Response | int:
    """The number of tokens that came, or the refusal."""
    options = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "extra_body": {"ignore_eos": True}}
    try:
        if not stream:
            answer = await client.completions.create(**options)
            assert answer.usage is not None
            return answer.usage.completion_tokens
        parts = await client.completions.create(**options, stream=True, stream_options={"include_usage": True})
        usages = [part.usage async for part in parts if part.usage is not None]
        return usages[-1].completion_tokens
    except openai.RateLimitError as refusal:
        return refusal.response


async def counted(doors: Doors, key: str, num_requests: int) -> None:
    """Wait until the tenant's usage, which is written in batches, holds so many requests; it never holds more."""
    found = -1
    for _ in range(200):
        usage = (await doors.call("GET", "/api/usage", key)).json()
        found = sum(day["requests"] for day in usage["days"])
        if found >= num_requests:
            break
        await asyncio.sleep(0.05)
    assert found == num_requests


async def crowd(doors: Doors, keys: list[str], *, prompt: str, max_tokens: int, num_calls: int) -> list[httpx.Response | int]:
    """Calls at once, split over keys, every second pair of them streaming."""
    clients = [doors.openai(key) for key in keys]
    calls = (ask(clients[number % len(keys)], prompt, max_tokens, stream=number // len(keys) % 2 == 0) for number in range(num_calls))
    return await asyncio.gather(*calls)


def most_at_once(doors: Doors, tenant: str) -> tuple[int, int]:
    """Requests of a tenant in one snapshot, and in one forward pass, at most."""
    seen = max(sum(row.tenant == tenant for row in snapshot.requests.running) for snapshot in doors.served.snapshots)
    owners = {record.id: record.tenant for record in doors.served.engine.records()}
    steps = (sum(owners[row.request] == tenant for row in step.rows) for step in doors.served.engine.steps())
    return seen, max(steps)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "accepted", "limit"),
    [("hi", 20, 10, "requests_per_minute"), ("a longer prompt", 80, 5, "tokens_per_minute")],
)
async def test_exact_over_two_keys(engine: Make, prompt: str, max_tokens: int, accepted: int, limit: str) -> None:
    """Of 20 calls over two keys 10 are let in, or as many as 500 tokens allow; two run at most; the others are told when; U is served."""
    async with opened(engine()) as doors:
        busy, calm = doors.tenant("busy", LIMITS), doors.tenant("calm")
        keys = [doors.key(busy), doors.key(busy)]
        theirs = crowd(doors, keys, prompt=prompt, max_tokens=max_tokens, num_calls=20)
        ours = crowd(doors, [doors.key(calm)], prompt=prompt, max_tokens=max_tokens, num_calls=6)
        told, served = await asyncio.gather(theirs, ours)
        assert served == [max_tokens] * 6
        assert [each for each in told if isinstance(each, int)] == [max_tokens] * accepted
        refusals = [each for each in told if isinstance(each, httpx.Response)]
        assert len(refusals) == 20 - accepted
        for refusal in refusals:
            error = refusal.json()["error"]
            assert (error["type"], error["code"], error["param"]) == ("rate_limit_error", "rate_limit_exceeded", limit)
            assert error["scope"] == "tenant busy"
            assert 1 <= int(refusal.headers["retry-after"]) <= 60
            assert refusal.headers["x-ratelimit-limit-requests"] == "10"
            assert refusal.headers["x-ratelimit-limit-tokens"] == "500"
            assert int(refusal.headers["x-ratelimit-remaining-requests"]) == 10 - accepted
        assert most_at_once(doors, busy) == (2, 2)
        assert most_at_once(doors, calm)[1] > 2
        records = doors.served.engine.records()
        assert Counter(record.tenant for record in records) == {busy: accepted, calm: 6}
        assert not [code for record in records if record.tenant == calm for code, _ in record.waits if code == "tenant_limit"]
        assert [record for record in records if record.tenant == busy and "tenant_limit" in dict(record.waits)]
        await counted(doors, keys[0], accepted)
