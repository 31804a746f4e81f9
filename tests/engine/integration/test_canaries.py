"""A canary that falls takes nobody with it: the stable version answers, and the share ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.alias import AliasName
from engine.events import AliasMoved
from engine.ids import DEFAULT_TENANT, AdapterId
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Answer, Served, expected, until
from tests.tiny import AdapterRecipe

KV = ("k_proj", "v_proj")
X = AliasName(DEFAULT_TENANT, "x")


async def with_canary(served: Served) -> tuple[Path, AdapterId]:
    """x@1 serves, x@2 gets half; the stable folder, and the canary's id."""
    stable = await served.add("x", AdapterRecipe(seed=1, modules=KV))
    first = served.entry("x").record.id
    await served.register(served.folder("new", AdapterRecipe(seed=2, modules=KV)), "x", replace=True)
    second = served.entry("x").record.id
    await asyncio.to_thread(served.engine.versions.names.move, "x", first)
    await asyncio.to_thread(served.engine.versions.names.canary, "x", second, 0.5)
    return stable, second


async def assert_ended(served: Served) -> None:
    """The alias has no canary; the log and every row say so."""
    await until(lambda: served.host.catalog.aliases[X].canary is None)
    line = (await asyncio.to_thread(lambda: served.engine.audit.lines(action="alias.canary", limit=1)))[0]
    assert line.before is not None
    assert line.after is not None
    assert (line.by, line.after["canary"], line.before["canary_share"]) == ("loradeck", None, 0.5)
    assert line.why
    entries = served.host.residency.entries
    assert not any(await served.inside(lambda: [entry.canary_of for entry in entries.values() if entry.canary_of]))


@pytest.mark.parametrize("fault", ["tampered", "gone", "damaged"])
async def test_the_stable_version_answers_for_a_fallen_canary(engine: Make, tiny_base: Path, fault: str) -> None:
    """Its weights changed in memory, its image gone or damaged: twenty requests are all answered by the stable version."""
    served = engine()
    stable, canary = await with_canary(served)
    if fault == "tampered":
        await served.control("evict", canary, tier="host")
        copy = served.host.residency.host.get(canary)
        assert copy is not None
        copy.pages[:, : copy.pages.shape[1] // 2] = 0
        await served.control("warm", canary)
        await until(lambda: served.host.residency.entries[canary].quarantined)
    else:
        await served.control("evict", canary, tier="disk")
        image = served.host.residency.disk.path(canary)
        image.unlink() if fault == "gone" else image.write_bytes(image.read_bytes()[:-10])
    answers: list[Answer] = await asyncio.gather(*[served.ask("x", (*PROMPT, number % 4), max_tokens=6) for number in range(20)])
    for number, answer in enumerate(answers):
        assert answer.ids == expected(tiny_base, stable, (*PROMPT, number % 4), 6), number
        assert answer.record.adapter == served.entry("x").record.id
    await assert_ended(served)
    moved = [event for _, event in served.engine.events().events if isinstance(event, AliasMoved)]
    assert (moved[-1].by, moved[-1].alias, moved[-1].canary) == ("loradeck", "x", None)
    await served.check()


async def test_shares_of_names_that_are_gone_are_forgotten(engine: Make) -> None:
    """However many names had a canary: as many are counted as have one."""
    served = engine()
    _, canary = await with_canary(served)
    names, record = served.engine.versions.names, served.entry("x").record
    for number in range(5):
        await asyncio.to_thread(names.create, f"n{number}", record, tenant=record.tenant)
        await asyncio.to_thread(names.canary, f"n{number}", canary, 0.5)
        await served.ask(f"n{number}", max_tokens=1)
        await served.unregister(f"n{number}")
    await served.ask("x", max_tokens=1)
    assert set(served.engine._router._splits) == {X}


async def test_a_retired_canary_leaves_the_name(engine: Make, tiny_base: Path) -> None:
    """Retiring the canary's version ends its share; the name stays, its stable version answers, and an undo brings the share back."""
    served = engine()
    stable, canary = await with_canary(served)
    done = await asyncio.to_thread(lambda: served.engine.versions.retirement.retire(canary, why="no good"))
    assert done.aliases == ()
    for _ in range(4):
        assert (await served.ask("x")).ids == expected(tiny_base, stable)
    await assert_ended(served)
    line = (await asyncio.to_thread(lambda: served.engine.audit.lines(action="version.retire")))[0]
    await asyncio.to_thread(served.engine.audit.undo, line.key)
    alias = served.host.catalog.aliases[X]
    assert (alias.canary, alias.canary_share) == (canary, 0.5)
    lines = await asyncio.to_thread(served.engine.audit.lines)
    assert [one.action for one in lines if one.undo_of == line.key] == ["alias.canary"]
