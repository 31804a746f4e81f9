"""Names move between versions, and versions come and go, under traffic."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from engine.adapters.image import AdapterImage
from engine.errors import Conflict, LoradeckError, ModelNotFound
from engine.events import AdapterRegistered
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Served, expected, first_chunk, read, until
from tests.tiny import MODULES, AdapterRecipe

KV = ("k_proj", "v_proj")
KEPT = {"VersionRecord", "Entry", "_Slice"}
"""What the registry knows of every version there was, and what limits and rates know of the last minute."""


@contextmanager
def opens() -> Iterator[list[str]]:
    """The files that are opened meanwhile, by any thread."""
    names: list[str] = []
    watching = True  # an audit hook stays for the life of the process

    def note(event: str, args: tuple[object, ...]) -> None:
        if watching and event == "open":
            names.append(str(args[0]))

    sys.addaudithook(note)
    try:
        yield names
    finally:
        watching = False


def weights_among(opened: list[str]) -> list[str]:
    """Those that hold weights."""
    return [name for name in opened if name.endswith((".safetensors", ".image"))]


async def replace(served: Served, source: Path, alias: str = "x") -> None:
    """Move an alias to what is in a folder."""
    await served.register(source, alias, replace=True)


async def test_a_moved_alias_answers_with_the_new_version_at_once(engine: Make, tiny_base: Path) -> None:
    """Twenty times to and fro, with a warm prefix cache: the first answer after the move is a fresh engine's."""
    served = engine()
    old = await served.add("x", AdapterRecipe(seed=51, modules=KV))
    new = served.folder("new", AdapterRecipe(seed=51, alpha=-16, modules=KV))
    assert (await served.ask("x")).ids == expected(tiny_base, old)
    for turn in range(20):
        folder = (new, old)[turn % 2]
        await replace(served, folder)
        assert (await served.ask("x", max_tokens=8)).ids == expected(tiny_base, folder)[:8], turn
    moves = [event for _, event in served.engine.events().events if isinstance(event, AdapterRegistered)]
    assert len(moves) == 21
    assert all(event.replaced for event in moves[1:])


async def test_a_changed_file_under_the_same_path_is_a_new_version(engine: Make, tiny_base: Path) -> None:
    """Registering the same folder again after its weights changed serves the new weights; unchanged, it creates nothing."""
    served = engine()
    recipes = [AdapterRecipe(seed=52, modules=KV), AdapterRecipe(seed=53, modules=KV)]
    for recipe in recipes:
        folder = served.folder("x", recipe)
        assert (await served.register(folder, "x", replace=True)).created
        assert not (await served.register(folder, "x", replace=True)).created
        expected.cache_clear()  # the folder's content is not what it was
        assert (await served.ask("x")).ids == expected(tiny_base, folder)


async def test_a_running_stream_ends_on_the_version_it_began_with(engine: Make, tiny_base: Path) -> None:
    """A stream that runs while its alias moves goes on with the old weights, which stay ready for a rollback."""
    served = engine()
    old = await served.add("x", AdapterRecipe(seed=54, modules=KV))
    version = served.entry("x").record.id
    stream = served.submit("x", max_tokens=120)
    first = await first_chunk(stream)
    new = served.folder("new", AdapterRecipe(seed=55, modules=KV))
    await replace(served, new)
    after, rest = await asyncio.gather(served.ask("x"), read(stream))
    assert (first.token_ids + rest.ids) == expected(tiny_base, old, PROMPT, 120)
    assert after.ids == expected(tiny_base, new)
    await until(lambda: not served.host.residency.entries[version].users)
    assert served.host.catalog.versions[version].state == "ready"


async def test_an_alias_is_not_taken_by_accident(engine: Make) -> None:
    """Another version under a name in use is a 409 that names both, unless replacement is asked for, and it leaves nothing behind."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=56))
    other = served.folder("other", AdapterRecipe(seed=57))
    with pytest.raises(Conflict) as caught:
        await served.register(other, "x")
    assert (caught.value.code, caught.value.found) == ("alias_taken", served.entry("x").record.id)
    assert len(served.host.residency.entries) == 1
    assert len(list(served.host.residency.disk.folder.glob("*.image"))) == 1


async def test_a_lost_race_for_an_alias_leaves_nothing_behind(engine: Make) -> None:
    """Eight versions want one name at once: one gets it, seven get a 409, and only the winner's weights stay."""
    served = engine()
    folders = [served.folder(f"{seed}", AdapterRecipe(seed=seed)) for seed in range(60, 68)]
    results = await asyncio.gather(*[served.register(folder, "x") for folder in folders], return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 7
    await until(lambda: len(served.host.residency.entries) == 1)
    assert [path.stem for path in served.host.residency.disk.folder.glob("*.image")] == [served.entry("x").record.id]
    assert len(served.host.catalog.versions) == 1


async def test_b12_unregister_lets_running_streams_finish(engine: Make, tiny_base: Path) -> None:
    """Ten streams answer as alone though their alias goes at the fifth token; the eleventh is refused, and then the weights go."""
    served = engine()
    folder = await served.add("x", AdapterRecipe(seed=58, modules=KV))
    version = served.entry("x").record.id
    streams = [served.submit("x", (*PROMPT, number), max_tokens=40) for number in range(10)]
    heads = [[await first_chunk(stream) for _ in range(5)] for stream in streams]
    await served.unregister("x")
    with pytest.raises(ModelNotFound):
        served.submit("x")
    answers = await asyncio.gather(*[read(stream) for stream in streams])
    for number, (head, answer) in enumerate(zip(heads, answers, strict=True)):
        ids = tuple(token for chunk in head for token in chunk.token_ids) + answer.ids
        assert ids == expected(tiny_base, folder, (*PROMPT, number), 40)
    await until(lambda: version not in served.host.residency.entries)
    await assert_empty(served)


async def test_b11_cycles_of_load_and_unload_leave_nothing(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred times registered, asked and unregistered: no weights, pages or resident memory are left, nor any object of ours.

    What telemetry remembers is bounded, and made to be full before anything is counted. After the fiftieth cycle the same 32 adapters come
    again and again, and in the last half 32 others, seven times each: what each left behind shows 32 times, and what each cycle left, 225.
    Resident memory that each cycle left shows in both halves; what the allocator takes once and keeps, in one.
    """
    for name in ("publisher.STEPS_KEPT", "publisher.RECORDS_KEPT", "publisher.LOADS_KEPT", "event_log.EVENTS_KEPT"):
        monkeypatch.setattr(f"engine.telemetry.{name}", 8)
    monkeypatch.setattr("engine.telemetry.event_log.EVENTS_OF_A_TENANT", 8)
    served = engine(pages=60)
    folders = [served.folder(f"{i}", AdapterRecipe(seed=200 + i, rank=1 + i % 12, modules=MODULES[: 1 + i % 7])) for i in range(64)]
    counts: list[Counter[str]] = []
    resident_bytes: list[int] = []
    for turn in range(500):
        await served.register(folders[turn % 32 + (32 if turn >= 275 else 0)], "x")
        await served.ask("x", (*PROMPT[:5], turn % 200), max_tokens=1)
        await served.unregister("x")
        del served.snapshots[:-1]
        if turn + 1 in {50, 275, 500}:
            await assert_empty(served)
            counts.append(our_objects())
            resident_bytes.append(held_bytes())
    assert {name: more for name, more in (counts[2] - counts[1]).items() if more >= 16 and name not in KEPT} == {}
    grown_bytes = [after - before for before, after in pairwise(resident_bytes)]
    assert min(grown_bytes) < 225 * 8192, "8 KiB a cycle, where the weights of an adapter are 40 KiB"


def held_bytes() -> int:
    """Resident memory of the process without what the allocator holds free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


def our_objects() -> Counter[str]:
    """How many of each class of the engine there are."""
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects() if str(type(each).__module__).startswith("engine."))


async def test_b12_load_and_unload_race(engine: Make, tiny_base: Path) -> None:
    """Three names of one version are registered, asked and withdrawn a hundred times in a race: all answers are right, nothing is left."""
    served = engine()
    folder = served.folder("x", AdapterRecipe(seed=59, modules=KV))
    want = expected(tiny_base, folder)[:3]

    async def churn(alias: str) -> None:
        for _ in range(34):
            await served.register(folder, alias)
            stream = served.submit(alias, max_tokens=3)
            await served.unregister(alias)
            assert (await read(stream)).ids == want

    await asyncio.gather(churn("a"), churn("b"), churn("c"))
    await assert_empty(served)


async def test_b18_weights_are_read_once_for_each_version(engine: Make) -> None:
    """Over a replacement and fifty requests the new source is opened once and its image read once, and neither of the old version."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=68))
    read_into, reads = AdapterImage.read_into, []

    def count(image: AdapterImage, buffer: memoryview) -> None:
        reads.append(image.id)
        read_into(image, buffer)

    with patch.object(AdapterImage, "read_into", count), opens() as opened:
        await replace(served, served.folder("new", AdapterRecipe(seed=69)))
        at_registration = weights_among(opened)
        for turn in range(5):
            await asyncio.gather(*[served.ask("x", (*PROMPT, turn, number), max_tokens=2) for number in range(10)])
    image = served.host.residency.disk.path(served.entry("x").record.id)
    source = served.data / "sources" / "new" / "adapter_model.safetensors"
    assert reads == [served.entry("x").record.id]
    assert weights_among(opened) == at_registration == [str(source), str(image), str(image)]  # its head, as written; then whole


async def test_a_dry_run_changes_nothing(engine: Make) -> None:
    """A dry run reports what would be registered, and registers nothing."""
    served = engine()
    answer = await served.register(served.folder("x", AdapterRecipe(seed=70)), "x", dry_run=True)
    assert (answer.dry_run, answer.created, answer.report.matched, answer.report.pages) == (True, False, 4, answer.row.pages)
    with pytest.raises(LoradeckError):
        served.submit("x")
    await assert_empty(served)


async def assert_empty(served: Served) -> None:
    """No version is left anywhere."""
    residency = served.host.residency
    await until(lambda: not residency.entries)
    await served.check()
    assert served.host.pool.num_free == served.host.pool.num_pages
    assert residency.host.used_bytes == 0
    assert residency.table.num_free == residency.table.num_slots
    assert not served.host.catalog.versions
