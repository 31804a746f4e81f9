"""Slots, pages and disks are shared: nobody starves, nobody stalls the others."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from engine.adapters.image import AdapterImage
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Answer, Served, expected, first_chunk, read
from tests.tiny import MODULES, AdapterRecipe


async def keep_busy(served: Served, model: str, number: int, answers: list[Answer]) -> None:
    """One request after another, until cancelled."""
    while True:
        answers.append(await served.ask(model, (*PROMPT, number, len(answers) % 200), max_tokens=16 + 7 * number))  # never all at once


async def test_b07_a_rare_adapter_is_served_under_a_hot_one(engine: Make, tiny_base: Path) -> None:
    """With one slot and four streams of A always in flight, B's first token comes within seconds, and A and the base go on."""
    served = engine(max_step_adapters=1, drain_after_s=0.2)
    await served.add("a", AdapterRecipe(seed=71))
    b = await served.add("b", AdapterRecipe(seed=72))
    answers: list[Answer] = []
    hot = [asyncio.create_task(keep_busy(served, "a", number, answers)) for number in range(4)]
    await asyncio.sleep(0.2)
    for _ in range(3):
        before = len(answers)
        rare, plain = await asyncio.gather(served.ask("b"), served.ask(None, max_tokens=8))
        assert rare.ids == expected(tiny_base, b)
        assert rare.record.ttft_s is not None
        assert rare.record.ttft_s < 5.0
        assert plain.record.ttft_s is not None
        assert plain.record.ttft_s < rare.record.ttft_s
        assert {code for code, _ in rare.record.waits} <= {"batch_full", "draining", "adapter_loading"}
    assert len(answers) > before
    for task in hot:
        task.cancel()
    await asyncio.gather(*hot, return_exceptions=True)


async def test_b08_a_slow_disk_stalls_nobody(engine: Make, tiny_base: Path) -> None:
    """While an image takes three seconds to read, another stream's tokens keep coming, and the load's record says where the time went."""
    served = engine()
    await served.add("a", AdapterRecipe(seed=73))
    b = await served.add("b", AdapterRecipe(seed=74))
    await served.control("evict", "b", tier="disk")
    read_into = AdapterImage.read_into

    def slow(image: AdapterImage, buffer: memoryview) -> None:
        time.sleep(3.0)
        read_into(image, buffer)

    stream = served.submit("a", max_tokens=200)
    await first_chunk(stream)
    with patch.object(AdapterImage, "read_into", slow):
        cold, streamed = await asyncio.gather(served.ask("b"), read(stream))
    assert cold.ids == expected(tiny_base, b)
    assert cold.record.tier_at_arrival == "disk"
    assert cold.record.adapter_load_s >= 2.9
    gaps = [after - before for before, after in pairwise(streamed.times_s)]
    assert max(gaps) < 2.0, "a stream waited for another's disk"
    load = (await served.row("b")).last_load
    assert load is not None
    phases = {phase.name: phase.duration_s for phase in load.phases}
    assert phases["read"] >= 3.0
    assert set(phases) == {"load queue", "read", "verify", "allocate", "copy"}
    assert load.waiters == (cold.record.id,)


async def test_more_adapters_than_slots_all_answer(engine: Make, tiny_base: Path) -> None:
    """Sixteen adapters over four slots and pages for six: every answer is the oracle's."""
    served = engine(max_step_adapters=4, pages=40, drain_after_s=0.3)
    names = [f"a{number}" for number in range(16)]
    folders = {
        name: await served.add(name, AdapterRecipe(seed=300 + number, rank=4, modules=MODULES[number % 7 :]))
        for number, name in enumerate(names)
    }
    answers = await asyncio.gather(*[served.ask(name, max_tokens=8) for name in names])
    for name, answer in zip(names, answers, strict=True):
        assert answer.ids == expected(tiny_base, folders[name], PROMPT, 8), name
    assert max(step.num_adapters for step in served.engine.steps()) <= 4
