"""A client that leaves takes its work with it."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from engine.allowance import Allowance
from tests.api.scripted_engine import ScriptedEngine

LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 200}
MODELS = ("A", "team/B", "tiny")


@pytest.fixture(autouse=True)
def endless(engine: ScriptedEngine) -> None:
    """Answers that last far longer than anybody listens."""
    engine.script = lambda _request, _choice: itertools.repeat(ord("x"))  # type: ignore[assignment, return-value]
    engine.pace_s = 0.05


async def until(condition: Callable[[], bool], *, within_s: float) -> None:
    """Waits for ``condition``; fails when it does not come true in time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


async def send(address: str, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw connection that has sent its request."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    content = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


async def test_fifty_streams_closed_after_their_first_chunk(address: str, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture) -> None:
    """Work stops within a few steps and is logged as 499 (B28)."""
    caplog.set_level(logging.INFO, logger="loradeck.api")
    async with httpx.AsyncClient(timeout=30) as client:
        for number in range(50):
            body = {**LONG, "model": MODELS[number % 3], "stream": True}
            async with client.stream("POST", f"{address}/v1/chat/completions", json=body) as response:
                async for _ in response.aiter_lines():
                    break
    await until(lambda: not engine.running, within_s=2)
    assert len(engine.submitted) == 50
    assert engine.tokens_made < 50 * 10
    assert engine.publisher.totals().cancelled == 50
    await until(lambda: sum("status=499" in line for line in caplog.messages) == 50, within_s=2)
    assert not any("completion_tokens=0" in line for line in caplog.messages)


async def test_fifty_plain_requests_whose_socket_closes(address: str, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture) -> None:
    """The same for answers that were to come in one piece (B28)."""
    caplog.set_level(logging.INFO, logger="loradeck.api")
    connections = [await send(address, {**LONG, "model": MODELS[number % 3]}) for number in range(50)]
    await until(lambda: len(engine.running) == 50, within_s=5)
    for _, writer in connections:
        writer.close()
    await until(lambda: not engine.running, within_s=2)
    assert engine.publisher.totals().cancelled == 50
    await until(lambda: sum("status=499" in line for line in caplog.messages) == 50, within_s=2)


async def test_leaving_before_the_first_token(address: str, engine: ScriptedEngine) -> None:
    """A stream that has not begun is watched too: its adapter may take long to come."""
    engine.pace_s = 30
    _, writer = await send(address, {**LONG, "model": "A", "stream": True})
    await until(lambda: len(engine.running) == 1, within_s=5)
    writer.close()
    await until(lambda: not engine.running, within_s=2)


async def test_all_choices_of_all_prompts_are_cancelled(address: str, engine: ScriptedEngine) -> None:
    """n choices of several prompts end together (B31)."""
    async with httpx.AsyncClient(timeout=30) as client:
        body = {"model": "A", "prompt": ["a", "b", "c"], "n": 4, "max_tokens": 200, "stream": True}
        async with client.stream("POST", f"{address}/v1/completions", json=body) as response:
            async for _ in response.aiter_lines():
                break
    await until(lambda: not engine.running, within_s=2)
    assert engine.publisher.totals().cancelled == 3


async def test_a_call_is_let_in_whole_or_not_at_all(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Of three prompts that do not all fit none is queued, and none is counted."""
    engine.gate.set_allowances({"default": Allowance(max_waiting=2, requests_per_minute=1)}, {})
    response = await http.post("/v1/completions", json={"model": "A", "prompt": ["a", "b", "c"], "max_tokens": 200})
    assert (response.status_code, response.json()["error"]["code"]) == (429, "queue_full")
    assert not engine.submitted
    assert (await http.post("/v1/completions", json={"model": "A", "prompt": ["a", "b"], "max_tokens": 1})).status_code == 200
    await until(lambda: not engine.running, within_s=2)
