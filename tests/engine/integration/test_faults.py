"""What goes wrong inside ends the requests it hit, and nothing more."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from engine.errors import EngineFault, LoradeckError, NotReady
from engine.events import RequestFailed
from engine.plan import StepPlan, StepResult
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import expected, first_chunk, outcome, read, until


async def test_a_step_that_fails_ends_its_requests_only(engine: Make, tiny_base: Path) -> None:
    """A fault in a forward pass is a typed 500 for each request in it; their pages come back, and the next request is right."""
    served = engine()
    folder = await served.add("x")
    run, runner = served.host.runner.run, served.host.runner
    failures = []

    def fail_once(plan: StepPlan) -> StepResult:
        if not failures and len(plan.rows) == 4:
            failures.append(plan.step)
            message = "planted"
            raise RuntimeError(message)
        return run(plan)

    with patch.object(runner, "run", fail_once):
        streams = [served.submit(name, max_tokens=30) for name in ("x", None, "x", None)]
        results = await asyncio.gather(*map(outcome, streams))
        assert failures
        assert all(isinstance(result, EngineFault) and result.status == 500 for result in results)
        assert served.host.pool.count("kv") == 0
        assert (await served.ask("x")).ids == expected(tiny_base, folder)
    assert served.engine.health().ok
    failed = [event for _, event in served.engine.events().events if isinstance(event, RequestFailed)]
    assert {event.code for event in failed} == {"engine_fault"}
    assert len(failed) == 4


async def test_a_fault_at_arrival_ends_that_request_only(engine: Make, tiny_base: Path) -> None:
    """A fault while a request is taken in is its typed 500; a stream beside it never notices."""
    served = engine()
    stream = served.submit(None, max_tokens=60)
    first = await first_chunk(stream)
    with patch.object(served.host.requests, "_sequence", side_effect=RuntimeError("planted")):
        result = await outcome(served.submit(None))
    assert isinstance(result, EngineFault)
    assert first.token_ids + (await read(stream)).ids == expected(tiny_base, None, num_tokens=60)


async def test_a_step_that_hangs_is_told(engine: Make, tiny_base: Path) -> None:
    """While a step hangs, health fails, running and waiting streams end with an error, and new ones get 503; afterwards all is well."""
    served = engine(stuck_after_s=0.6)
    run, runner, release = served.host.runner.run, served.host.runner, threading.Event()

    def hang(plan: StepPlan) -> StepResult:
        release.wait(20)
        return run(plan)

    assert served.engine.health().ok
    with patch.object(runner, "run", hang):
        running = served.submit(None, max_tokens=100)
        await asyncio.sleep(0.2)
        behind = served.submit(None, max_tokens=100)
        started_s = time.perf_counter()
        results = await asyncio.gather(outcome(running), outcome(behind))
        assert time.perf_counter() - started_s < 10
        assert [(type(result), getattr(result, "code", None)) for result in results] == [(EngineFault, "engine_stuck")] * 2
        health = served.engine.health()
        assert (health.ok, health.state) == (False, "down")
        assert health.last_progress_age_s > 0.6
        with pytest.raises(NotReady):
            served.submit(None)
        release.set()
        await until(lambda: served.engine.health().ok, within_s=5)
    assert (await served.ask(None)).ids == expected(tiny_base, None)
    await until(lambda: not served.host.requests.streams, within_s=5)
    assert all(record.completion_tokens < 100 for record in served.engine.records()), "abandoned requests ran on"


async def test_a_stopping_engine_ends_its_streams(engine: Make) -> None:
    """Stop ends running and waiting streams with 503, later requests get 503 at once, and stopping again does nothing."""
    served = engine(max_sequences=1)
    streams = [served.submit(None, max_tokens=200) for _ in range(3)]
    await first_chunk(streams[0])
    late = served.submit(None)
    await asyncio.to_thread(served.engine.stop)
    results = await asyncio.gather(*map(outcome, (*streams, late)))
    assert [type(result) for result in results] == [NotReady] * 4
    with pytest.raises(NotReady):
        served.submit(None)
    assert not served.engine.health().ok
    served.engine.stop()


async def test_a_loader_that_fails_is_not_the_end_of_loading(engine: Make, tiny_base: Path) -> None:
    """A fault of ours in every loader thread ends the requests that waited for it; the next load works."""
    served = engine(loader_threads=1)
    folder = await served.add("x")
    await served.control("evict", "x", tier="disk")
    with patch.object(served.host.residency.disk, "open", side_effect=RuntimeError("planted")):
        for _ in range(2):
            result = await asyncio.wait_for(outcome(served.submit("x")), 10)
            assert isinstance(result, LoradeckError)
    assert (await served.ask("x")).ids == expected(tiny_base, folder)
    await served.control("evict", "x", tier="host")
    with patch.object(served.host.residency.loads.loader, "_copy_on_host", side_effect=RuntimeError("planted")):
        result = await asyncio.wait_for(outcome(served.submit("x")), 10)
        assert isinstance(result, LoradeckError)
    assert (await served.ask("x")).ids == expected(tiny_base, folder)
