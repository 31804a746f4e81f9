"""Too little memory for all that is asked: everything ends well or is refused, and the memory adds up at every moment."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from engine import model_host
from engine.errors import AdapterRefused, Overloaded
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Answer, first_chunk, is_greedy, outcome, read, until
from tests.tiny import MODULES, AdapterRecipe


async def test_b20_a_tiny_arena_serves_long_requests(engine: Make, tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty long requests over twelve adapters in 40 pages: each is the oracle's or a typed 429, with preemptions and evictions.

    A snapshot is published every step; the fixture adds up the parts of each one, and proves every pool at the end.
    """
    monkeypatch.setattr(model_host, "PUBLISH_EVERY_S", 0.0)
    served, rng = engine(pages=40, drain_after_s=0.2, max_sequences=16), random.Random(20)
    folders: list[Path | None] = [
        await served.add(f"a{number}", AdapterRecipe(seed=500 + number, rank=(4, 8, 16, 24)[number % 4], modules=MODULES[number % 3 : 4]))
        for number in range(12)
    ]
    prompts = [tuple(rng.randrange(250) for _ in range(rng.randrange(60, 120))) for _ in range(30)]
    names = [f"a{number % 12}" if number % 6 else None for number in range(30)]
    results = await asyncio.gather(
        *[outcome(served.submit(name, prompt, max_tokens=40)) for name, prompt in zip(names, prompts, strict=True)]
    )
    for number, result in enumerate(results):
        if isinstance(result, Answer):
            folder = folders[number % 12] if number % 6 else None
            assert len(result.ids) == 40
            assert is_greedy(tiny_base, folder, prompts[number], result.ids), number
        else:
            assert isinstance(result, Overloaded)
    assert sum(isinstance(result, Answer) for result in results) >= 25
    totals = served.engine.snapshot().totals
    assert totals.preemptions > 0
    assert totals.evictions > 0
    assert len(served.snapshots) > 40
    parts = [snapshot.memory.parts for snapshot in served.snapshots]
    for name in ("adapters_leased", "adapters_cached", "kv_used", "kv_prefix"):
        assert len({part[name] for part in parts}) > 3, f"{name} never moved"


async def test_b20_an_adapter_that_can_never_fit_is_refused_with_the_numbers(engine: Make) -> None:
    """More pages than can ever be free for one adapter is a 422 at registration that says both."""
    served = engine(pages=30)
    folder = served.folder("big", AdapterRecipe(seed=510, rank=64, modules=MODULES))
    with pytest.raises(AdapterRefused) as caught:
        await served.register(folder, "big")
    assert (caught.value.code, caught.value.expected) == ("too_large", 27)
    assert isinstance(caught.value.found, int)
    assert caught.value.found > 27


async def test_b20_an_adapter_larger_than_the_host_cache_is_refused_with_the_numbers(engine: Make) -> None:
    """A 422 at registration that names the setting, before anything is loaded.

    After a restart with less a request says the same, and nobody's copy leaves for it.
    """
    served = engine(host_cache=1)
    with pytest.raises(AdapterRefused) as caught:
        await served.add("x", AdapterRecipe(seed=511), prove="first_load")
    assert (caught.value.code, caught.value.param, caught.value.expected) == ("too_large", "host_cache", 1)
    needed = caught.value.found
    host = served.host.residency.host
    host.budget_bytes = needed  # type: ignore[assignment]
    await served.add("x", AdapterRecipe(seed=511))
    await served.control("evict", "x", tier="disk")
    host.budget_bytes = needed - 1  # type: ignore[operator]
    for _ in range(2):
        with pytest.raises(AdapterRefused) as refused:
            await served.ask("x")
        assert (refused.value.param, refused.value.expected, refused.value.found) == ("host_cache", host.budget_bytes, needed)
    assert host.used_bytes == 0
    await served.check()


async def test_a_full_queue_is_refused_at_once(engine: Make) -> None:
    """Past ``max_waiting`` a request gets 429 with a time to try again, and those that wait are served."""
    served = engine(max_sequences=1, max_waiting=3)
    streams = [served.submit(None, max_tokens=40)]
    await first_chunk(streams[0])
    streams += [served.submit(None, max_tokens=4) for _ in range(3)]
    await until(lambda: served.host.num_waiting == 3)
    with pytest.raises(Overloaded) as caught:
        served.submit(None)
    assert (caught.value.status, caught.value.retry_after_s > 0) == (429, True)
    assert [len((await read(stream)).ids) for stream in streams] == [39, 4, 4, 4]


async def test_streams_that_are_left_free_everything(engine: Make) -> None:
    """Fifty streams over three adapters are cancelled, running, waiting or loading: soon no page, lease or slot is held."""
    served = engine(max_sequences=16)
    for number in range(3):
        await served.add(f"a{number}", AdapterRecipe(seed=520 + number))
    await served.control("evict", "a2", tier="disk")
    streams = [served.submit(f"a{number % 3}", (*PROMPT, number), max_tokens=200, n=1 + number % 2) for number in range(50)]
    await first_chunk(streams[0])
    for stream in streams:
        stream.cancel()
        stream.cancel()
    host = served.host
    await until(lambda: not host.requests.streams and not len(host.scheduler.running), within_s=2.0)  # a second, on a busy machine two
    answers = await asyncio.gather(*map(read, streams))
    assert {answer.record.finish_reason for answer in answers} == {"cancelled"}
    held = await served.inside(lambda: (host.pool.count("kv"), host.pool.num_shared, host.num_waiting, host.residency.table.num_free))
    assert held == (0, 0, 0, host.residency.table.num_slots)
    for number in range(3):
        assert (served.entry(f"a{number}").leases, served.entry(f"a{number}").users) == (0, 0)
    for number in range(3):
        await served.unregister(f"a{number}")
    await until(lambda: not host.residency.entries)
    streams[0].cancel()
    await served.check()


async def test_seeds_outlast_preemption_and_company(engine: Make) -> None:
    """Six seeded requests that crowd each other out of memory say what each says alone."""
    served = engine(pages=24, max_sequences=8)
    options = [{"temperature": 1.0, "seed": seed, "top_p": 0.95, "max_tokens": 60} for seed in range(6)]
    alone = [(await served.ask(None, tenant="alone", **option)).ids for option in options]
    assert len(set(alone)) == 6
    together = await asyncio.gather(*[served.ask(None, **option) for option in options])
    assert sum(answer.record.preemptions for answer in together) > 0
    assert [answer.ids for answer in together] == alone
