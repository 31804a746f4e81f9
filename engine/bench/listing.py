"""A restart with many rows, and the time of what shows them: pages over the real HTTP application, in its process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx
import psutil

from engine.api.app import build_app
from engine.bench.gaps import percentile
from engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.types import ASGIApp, Message

    from engine.settings import Settings

PAGE: Final = 100
TICK_S: Final = 0.001
READY_S: Final = 60.0
WHOLE: Final = {"models": "/v1/models", "snapshot": "/api/snapshot", "metrics": "/metrics"}
WHOLE_TIMES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What one restart found. Times of a question are seconds, one a repetition."""

    start_s: float
    """Of the engine, base included."""
    rss_bytes: int
    """Taken by the start."""
    rows: int
    pages: Mapping[str, list[float]] = field(default_factory=dict)
    whole: Mapping[str, list[float]] = field(default_factory=dict)
    """Answers that name every row."""
    stalls: Mapping[str, float] = field(default_factory=dict)
    """By question of ``whole``: the longest time that the event loop stood still meanwhile."""


def pages(rows: int, tenant: str) -> dict[str, str]:
    """What is asked of the list, by name."""
    last = max(0, rows - PAGE)
    return {
        "default": "",
        "by_bytes": "sort=-bytes",
        "by_requests": "sort=-requests_per_min",
        "by_registered": "sort=-registered_unix",
        "by_last_used": "sort=-last_used_unix",
        "by_tier": "sort=tier",
        "on_disk": "tier=disk",
        "of_tenant": f"tenant={tenant}",
        "pinned": "pinned=true",
        "searched": "q=-0001",
        "searched_and_sorted": "q=many&sort=-rank&tier=disk",
        "last_page": f"offset={last}",
        "last_page_sorted": f"offset={last}&sort=-registered_unix",
    }


def restart(settings: Settings, *, tenant: str, repeats: int) -> Listing:
    """Start an engine in this process, which should be a fresh one, and ask; with no ``repeats`` only start."""
    process = psutil.Process()
    before_bytes, started_s = process.memory_info().rss, time.perf_counter()
    engine = Engine(settings)
    engine.start()
    start_s = time.perf_counter() - started_s
    try:
        rows = _published(engine)
        taken_bytes = process.memory_info().rss - before_bytes
        if not repeats:
            return Listing(start_s=start_s, rss_bytes=taken_bytes, rows=rows)
        told = asyncio.run(_ask_all(engine, pages(rows, tenant), repeats))
    finally:
        engine.stop()
    return Listing(start_s=start_s, rss_bytes=taken_bytes, rows=rows, pages=told[0], whole=told[1], stalls=told[2])


def _published(engine: Engine) -> int:
    """Wait until the snapshot has every row; how many."""
    wanted, until_s = len(engine.models()) - 1, time.perf_counter() + READY_S
    while len(engine.snapshot().adapters) < wanted and time.perf_counter() < until_s:
        time.sleep(0.05)
    return len(engine.snapshot().adapters)


Told = tuple[dict[str, list[float]], dict[str, list[float]], dict[str, float]]


async def _ask_all(engine: Engine, queries: Mapping[str, str], repeats: int) -> Told:
    """The pages in turns, so that whatever the machine does meanwhile meets all alike; then what names every row."""
    app = build_app(engine)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        times_s: dict[str, list[float]] = {name: [] for name in queries}
        for turn in range(repeats + 1):
            for name, query in queries.items():
                took_s = await _ask(http, f"/api/adapters?{query}")
                if turn:  # the first turn warms
                    times_s[name].append(took_s)
        whole_s: dict[str, list[float]] = {}
        stalls_s: dict[str, float] = {}
        for name, path in WHOLE.items():
            await _take(app, path)
            async with _watched() as gaps_s:
                whole_s[name] = [await _take(app, path) for _ in range(WHOLE_TIMES)]
            stalls_s[name] = max(gaps_s)
    return times_s, whole_s, stalls_s


async def _ask(http: httpx.AsyncClient, path: str) -> float:
    started_s = time.perf_counter()
    answer = await http.get(path)
    took_s = time.perf_counter() - started_s
    answer.raise_for_status()
    return took_s


async def _take(app: ASGIApp, path: str) -> float:
    """Ask without a client, which would put a long answer together on this very loop; its parts are dropped as they come."""
    statuses: list[int] = []
    asked: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not asked:
            await asyncio.Event().wait()  # nobody hangs up
        return asked.pop()

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

    started_s = time.perf_counter()
    headers = [(b"host", b"127.0.0.1")]
    facts = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
    more = {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "", "client": ("127.0.0.1", 1)}
    await app(facts | more | {"server": ("127.0.0.1", 80)}, receive, send)
    assert statuses == [httpx.codes.OK], f"{path} answered {statuses}"
    return time.perf_counter() - started_s


@contextlib.asynccontextmanager
async def _watched() -> AsyncIterator[list[float]]:
    """How long the loop stood still between two looks of a task that does nothing else."""
    gaps_s: list[float] = []

    async def look() -> None:
        last_s = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.perf_counter()
            gaps_s.append(max(0.0, now_s - last_s - TICK_S))
            last_s = now_s

    task = asyncio.create_task(look())
    await asyncio.sleep(2 * TICK_S)
    try:
        yield gaps_s
        await asyncio.sleep(2 * TICK_S)
    finally:
        task.cancel()


def p50(times_s: list[float]) -> float:
    """Milliseconds."""
    return _ms(times_s, 0.5)


def p95(times_s: list[float]) -> float:
    """Milliseconds."""
    return _ms(times_s, 0.95)


def _ms(times_s: list[float], share: float) -> float:
    found = percentile(times_s, share)
    assert found is not None, "nothing was timed"
    return found * 1000
