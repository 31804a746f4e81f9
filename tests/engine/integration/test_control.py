"""Operators move adapters: warm, pin, unpin and evict do what they say, or say why not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from engine.errors import AdapterNotFound, Conflict, InvalidRequest
from engine.events import AdapterEvicted, AdapterPinned, AdapterUnpinned
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, first_chunk, read, until
from tests.tiny import MODULES, AdapterRecipe


async def test_commands_change_the_tier_as_asked(engine: Make, tiny_base: Path) -> None:
    """Each command leaves the adapter where it says, the answer is the same from every tier, and each move is an event."""
    served = engine()
    folder = await served.add("x")
    for verb, tier, found in (
        ("evict", "host", "host"),
        ("warm", "device", "device"),
        ("evict", "disk", "disk"),
        ("warm", "host", "host"),
        ("evict", "disk", "disk"),
        ("warm", "device", "device"),
        ("pin", "device", "device"),
        ("unpin", None, "device"),
        ("evict", "host", "host"),
        ("evict", "disk", "disk"),
    ):
        answer = await served.control(verb, "x", tier=tier)  # type: ignore[arg-type]
        assert (answer.applied, answer.preview, answer.adapter.tier) == (True, False, found), (verb, tier)
        assert (await served.row("x")).tier == found
        await served.check()
        await until(lambda tier=found: [row.tier for row in served.engine.snapshot().adapters] == [tier])  # type: ignore[misc]
    assert (await served.ask("x")).ids == expected(tiny_base, folder)
    kinds = [type(event) for _, event in served.engine.events().events]
    assert (kinds.count(AdapterPinned), kinds.count(AdapterUnpinned), kinds.count(AdapterEvicted)) == (1, 1, 3)


async def test_an_eviction_waits_for_the_stream(engine: Make, tiny_base: Path) -> None:
    """An evict says how many streams it waits for; they end as alone, then the adapter leaves, and a new request brings it back."""
    served = engine()
    folder = await served.add("x")
    stream = served.submit("x", max_tokens=150)
    first = await first_chunk(stream)
    answer = await served.control("evict", "x", tier="disk")
    assert (answer.waiting_leases, answer.adapter.tier) == (1, "draining")
    late, rest = await asyncio.gather(served.ask("x"), read(stream))
    assert first.token_ids + rest.ids == expected(tiny_base, folder, num_tokens=150)
    assert late.ids == expected(tiny_base, folder)
    assert late.record.ttft_s is not None
    assert dict(late.record.waits).keys() >= {"draining", "adapter_loading"}
    reasons = [event.because for _, event in served.engine.events().events if isinstance(event, AdapterEvicted)]
    assert reasons == ["operator"]


async def test_a_preview_changes_nothing(engine: Make) -> None:
    """Each verb with ``preview`` tells what would happen, and the row, the pages and the events stay as they were."""
    served = engine()
    await served.add("x")
    await served.control("evict", "x", tier="disk")
    before, events = await served.row("x"), served.engine.events().newest
    for verb in ("warm", "pin", "unpin", "evict"):
        answer = await served.control(verb, "x", preview=True)  # type: ignore[arg-type]
        assert (answer.applied, answer.preview) == (False, True)
        assert answer.message
        assert await served.row("x") == before
    bill = dict((await served.control("pin", "x", preview=True)).arithmetic)
    assert bill["Free after"] == bill["Free now"] - before.pages
    assert bill["Left"] == bill["Arena"] + bill["Pinned after"] + bill["KV floor"]
    assert served.engine.events().newest == events


async def test_a_preview_names_who_would_leave(engine: Make) -> None:
    """On a full arena the bill names the victims, and they are who leaves."""
    served = engine(pages=20, kv_floor=0.1)
    for number in range(5):
        await served.add(f"a{number}", AdapterRecipe(seed=400 + number, rank=16))
    cold = next(name for name in ("a0", "a1", "a2") if not served.entry(name).on_device)
    preview = await served.control("warm", cold, preview=True)
    assert preview.victims
    lines = dict(preview.arithmetic)
    assert lines["Free after"] == lines["Free now"] + sum(victim.pages for victim in preview.victims) - preview.adapter.pages >= 0
    await served.control("warm", cold)
    for victim in preview.victims:
        assert not served.entry(victim.alias).on_device


async def test_b19_pins_leave_room_for_the_others(engine: Make, tiny_base: Path) -> None:
    """With room for three, the third pin is refused with the sum; a fourth adapter answers, ten rotate, and pins outlast the pressure."""
    served = engine(pages=28, kv_floor=0.2, drain_after_s=0.3)
    names = [f"a{number}" for number in range(10)]
    folders = {name: await served.add(name, AdapterRecipe(seed=410 + number, rank=32)) for number, name in enumerate(names)}
    pages = (await served.row("a0")).pages
    pinned = []
    for name in names:
        refusal = await refused(served, "pin", name)
        if refusal is not None:
            lines = dict(refusal.arithmetic)
            assert refusal.code == "pin_would_not_fit"
            assert lines["Arena"] + lines["Pinned after"] + lines["KV floor"] == lines["Left"] < lines["Needed"] == pages
            break
        pinned.append(name)
    assert (len(pinned), (lines["Arena"] + lines["KV floor"]) // pages) == (2, 3)
    assert (await served.ask("a3", max_tokens=8)).ids == expected(tiny_base, folders["a3"], num_tokens=8)
    await until(lambda: all(served.entry(name).on_device for name in pinned))
    answers = await asyncio.gather(*[served.ask(name, max_tokens=8) for name in names * 2])
    for name, answer in zip(names * 2, answers, strict=True):
        assert answer.ids == expected(tiny_base, folders[name], num_tokens=8)
    assert all(served.entry(name).on_device for name in pinned)
    assert served.engine.snapshot().totals.evictions >= 7
    with pytest.raises(Conflict) as caught:
        await served.control("evict", pinned[0])
    assert caught.value.code == "pinned"


async def test_a_pin_ends_when_it_says(engine: Make) -> None:
    """A pin with an end is dropped by policy after it, without anybody's help; one that would end in the past is refused."""
    served = engine()
    await served.add("x")
    soon = served.engine.control("pin", "x", until_unix=time.time() + 0.3)
    assert (await asyncio.wrap_future(soon)).adapter.pinned
    await until(lambda: served.entry("x").pin is None, within_s=5)
    ended = [event for _, event in served.engine.events().events if isinstance(event, AdapterUnpinned)]
    assert [(event.by, event.because) for event in ended] == [("policy", "expired")]
    with pytest.raises(InvalidRequest):
        await asyncio.wrap_future(served.engine.control("pin", "x", until_unix=time.time() - 1))


async def test_a_pin_to_host_keeps_the_copy(engine: Make) -> None:
    """With a host budget of nothing, only a pinned copy stays in host memory, also after the adapter has left the device."""
    served = engine(host_cache=0)
    for name in ("x", "y"):
        await served.add(name, AdapterRecipe(seed=len(name) + ord(name)))
    assert served.host.residency.host.used_bytes == 0
    await served.control("pin", "x", tier="host")
    for name in ("x", "y"):
        await served.inside(lambda name=name: served.host.residency.leave_device(served.entry(name), because="pages_needed"))  # type: ignore[misc]
    await until(
        lambda: (
            served.entry("x").load is None and not served.entry("x").on_device and served.entry("x").record.id in served.host.residency.host
        )
    )
    assert [(await served.row(name)).tier for name in ("x", "y")] == ["host", "disk"]


@pytest.mark.parametrize(("verb", "tier"), [("warm", "disk"), ("pin", "disk"), ("evict", "device"), ("warm", "remote")])
async def test_a_tier_that_makes_no_sense_is_refused(engine: Make, verb: str, tier: str) -> None:
    """The refusal names the tiers that would do."""
    served = engine()
    await served.add("x")
    with pytest.raises(InvalidRequest) as caught:
        await served.control(verb, "x", tier=tier)  # type: ignore[arg-type]
    assert (caught.value.param, caught.value.found) == ("tier", tier)
    with pytest.raises(AdapterNotFound):
        await served.control("warm", "nobody")


async def test_many_commands_at_once_agree(engine: Make) -> None:
    """Fifty commands for four adapters in a random order, beside traffic: each is answered or refused, and the pools agree."""
    served = engine(pages=60, drain_after_s=0.2)
    for number in range(4):
        await served.add(f"a{number}", AdapterRecipe(seed=430 + number, modules=MODULES))
    commands = [(verb, f"a{number % 4}") for number, verb in enumerate(("warm", "evict", "pin", "unpin", "warm") * 10)]

    refusals, _ = await asyncio.gather(
        asyncio.gather(*[refused(served, *command) for command in commands]),
        asyncio.gather(*[served.ask(f"a{number % 4}", max_tokens=6) for number in range(12)]),
    )
    assert {refusal.code for refusal in refusals if refusal} <= {"pinned", "loading", "pin_would_not_fit"}
    await served.check()


async def refused(served: Served, verb: str, name: str) -> Conflict | None:
    """The conflict that a command came to; None when it was carried out."""
    try:
        await served.control(verb, name)  # type: ignore[arg-type]
    except Conflict as refusal:
        return refusal
    return None
