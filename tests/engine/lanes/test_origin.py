"""An adapter whose image lies at an origin: who asks for it waits for the download, and gets what was registered or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.adapters.origin import HttpOrigin
from engine.errors import LoradeckError
from engine.lanes.store import ArtifactStore
from tests.engine.integration.serving import expected
from tests.engine.lanes.conftest import Bench

FAST = 2**30


@contextmanager
def remote(bench: Bench) -> Iterator[Path]:
    """The adapter ``x`` at a store; the file that is served there. On disk again afterwards."""
    host, entry = bench.served.host, bench.served.entry("x")
    disk, adapter = host.residency.disk, entry.record.id
    kept = disk.away / disk.path(adapter).name
    with ArtifactStore(kept, bytes_per_s=FAST) as store:
        disk.send_away(adapter, HttpOrigin(store.url))
        host.call(lambda: host.residency.mark_away(entry, away=True))
        yield kept
        disk.bring_back(adapter)
        host.call(lambda: host.residency.mark_away(entry, away=False))


def tier(bench: Bench) -> str:
    """Where ``x`` is, read on the engine thread."""
    return bench.served.host.call(lambda: bench.served.host.residency.state(bench.served.entry("x").record.id))


def test_whoever_asks_gets_the_adapter_that_was_registered(bench: Bench, tiny_base: Path) -> None:
    """Two requests at once share one download; afterwards the image is on disk, and its load says where it came from."""
    with remote(bench):
        assert tier(bench) == "remote"

        async def both() -> list[tuple[int, ...]]:
            answers = await asyncio.gather(bench.served.ask("x"), bench.served.ask("x"))
            return [answer.ids for answer in answers]

        assert asyncio.run(both()) == [expected(tiny_base, bench.served.data / "sources" / "x")] * 2
        load = bench.served.host.observer.last_loads[bench.served.entry("x").record.id]
        assert (load.from_tier, [phase.name for phase in load.phases].count("download"), len(load.waiters)) == ("remote", 1, 2)
        bench.served.engine.control("evict", "x", tier="disk").result(20)
        assert tier(bench) == "disk"


@pytest.mark.parametrize("harm", ["flipped", "short", "gone"])
def test_a_damaged_artifact_is_refused_and_not_kept(bench: Bench, harm: str) -> None:
    """The request ends with a typed error and the adapter is still remote; once the store is sound again it answers."""
    with remote(bench) as kept:
        sound = kept.read_bytes()
        kept.write_bytes({"flipped": sound[:-1] + bytes([sound[-1] ^ 1]), "short": sound[:-512], "gone": b""}[harm])
        if harm == "gone":
            kept.unlink()
        with pytest.raises(LoradeckError):
            asyncio.run(bench.served.ask("x"))
        assert tier(bench) == "remote"
        assert not bench.served.host.residency.disk.path(bench.served.entry("x").record.id).exists()
        kept.write_bytes(sound)
        assert asyncio.run(bench.served.ask("x")).ids
