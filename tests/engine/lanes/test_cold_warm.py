"""A comparison from end to end on TINY: where lanes start, what they say, what is left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from engine.adapters.origin import HttpOrigin
from engine.adapters.tiers import DiskTier
from engine.caller import SYSTEM
from engine.engine import Engine
from engine.errors import Conflict
from engine.ids import AdapterId
from engine.lanes import page_cache
from engine.lanes.placement import Placement
from engine.lanes.results import LANES, ColdWarmOptions, LaneName
from engine.lanes.served import ask, greedy_request
from engine.lanes.store import ArtifactStore
from tests.engine.integration.serving import expected
from tests.engine.lanes.conftest import Bench
from tests.tiny import MODULES, AdapterRecipe

NEAR: tuple[LaneName, ...] = ("pinned", "host", "disk", "remote")
SLOW = 64 * 1024
"""Bytes a second at which TINY's image takes longer than anybody waits."""


def leftovers(bench: Bench) -> list[str]:
    """What a comparison must not leave: replica folders, half-fetched images, images away, its threads, its processes."""
    data = bench.served.data
    files = [path.name for pattern in (".replica-*", "adapters/*/*.part", "adapters/*/away") for path in data.glob(pattern)]
    threads = [thread.name for thread in threading.enumerate() if thread.name in {"lanes", "store"}]
    children = [child.cmdline()[-1] for child in psutil.Process().children(recursive=True) if "engine.lanes.replica" in child.cmdline()]
    return files + threads + children


def test_every_lane_starts_where_it_says_and_all_say_the_same(bench: Bench, tiny_base: Path) -> None:
    """Residency read inside each run's start, and by the request itself at its arrival; tokens are those of ``transformers``."""
    seen: list[tuple[str, str | None]] = []

    def watched(engine: Engine, *rest: object) -> object:
        answer = ask(engine, *rest)  # type: ignore[arg-type]
        seen.append((engine.records()[-1].tier_at_arrival or "", str(engine.records()[-1].cached_tokens)))
        return answer

    with patch("engine.lanes.lane_runs.ask", watched):
        state = bench.run(repeats=2)
    assert (state.fault, state.stopped, state.differences) == ("", False, ())
    starts = {result.lane: [(run.start.found, run.fault) for run in result.runs if run.start] for result in state.results}
    found = {
        "pinned": "device, pinned",
        "host": "host",
        "disk": "disk",
        "remote": "remote",
        "merge": "files on disk",
        "replica": "no process",
    }
    assert starts == {lane: [(found[lane], "")] * 2 for lane in LANES}
    tiers = [tier for tier, cached in seen if cached == "0"]
    assert tiers == ["disk", *("device", "host", "disk", "remote") * 2], "the first is the warm-up"
    tokens = {run.token_ids for run in state.counted}
    assert tokens == {expected(tiny_base, bench.served.data / "sources" / "x", num_tokens=8)}
    assert leftovers(bench) == []


def test_any_tenants_adapter_can_be_compared() -> None:
    """An operator of all tenants compares with an adapter that belongs to one of them."""
    assert greedy_request(ColdWarmOptions(adapter="acme/a", prompt_ids=(1, 2), repeats=1), AdapterId("0" * 64)).scope is None


def test_a_canary_takes_no_part(bench: Bench) -> None:
    """The version that was chosen is measured in every run, also while its name sends others to a second one."""
    folder = bench.served.folder("y", AdapterRecipe(seed=22, modules=MODULES))
    versions = bench.served.engine.versions
    bench.served.engine.register(str(folder), alias="x", replace=True)
    versions.names.rollback("x")
    versions.names.canary("x", "2", 0.5)
    state = bench.run(repeats=2, lanes=NEAR)
    assert (state.fault, [run.fault for result in state.results for run in result.runs]) == ("", [""] * 2 * len(NEAR))
    assert state.differences == ()
    assert {record.adapter for record in bench.served.engine.records()} == {bench.served.engine.resolve("x").adapter}


def test_phases_tell_what_each_lane_paid_for(bench: Bench) -> None:
    """Phases follow one another from 0 to the first token; each lane has the ones that its start asks for, and no other loads."""
    state = bench.run(repeats=1)
    loads = {"download", "read", "verify", "copy"}
    wanted = {"pinned": set(), "host": {"copy"}, "disk": loads - {"download"}, "remote": loads}
    for result in state.results:
        (run,) = result.counted
        at_s = 0.0
        for phase in run.phases:
            assert phase.start_s == pytest.approx(at_s, abs=1e-4), (run.lane, phase)
            at_s += phase.duration_s
        assert at_s == pytest.approx(run.ttft_s, abs=1e-3)
        names = {phase.name for phase in run.phases}
        assert "prefill" in names
        if run.lane in wanted:
            assert names & loads == wanted[run.lane], run.lane
    assert {"read base", "merge", "build model"} <= {phase.name for phase in state.of("merge").counted[0].phases}
    assert {"process start", "prepare kernels", "read base", "start engine"} <= {
        phase.name for phase in state.of("replica").counted[0].phases
    }
    assert (state.of("replica").counted[0].process_bytes or 0) > 50 * 2**20


def test_the_disk_lane_says_whether_the_page_cache_was_dropped(bench: Bench) -> None:
    """Where pages cannot be dropped, the run carries ``warm``."""
    image = next(bench.served.data.rglob("*.image"))
    image.read_bytes()
    assert page_cache.resident_share(image) == 1.0
    honest = page_cache.forget(image)
    assert honest == ("dropped" if page_cache.resident_share(image) == 0 else "warm")
    with patch.object(os, "posix_fadvise", lambda *_: None):
        state = bench.run(repeats=1, lanes=("disk",))
    assert [run.start.page_cache for run in state.of("disk").runs if run.start] == ["warm"]


def test_a_wrong_start_does_not_count_and_says_so(bench: Bench) -> None:
    """An adapter that stays on the device, or comes to it behind our back, is no start from host memory."""
    leave = Placement._leave_for

    def comes_back(self: Placement, lane: LaneName, origin: object) -> None:
        leave(self, lane, origin)  # type: ignore[arg-type]
        bench.served.engine.control("warm", "x").result(20)

    with patch.object(Placement, "_leave_for", comes_back):
        state = bench.run(repeats=2, lanes=("pinned", "host"))
    assert len(state.of("pinned").counted) == 2
    assert [run.fault for run in state.of("host").runs] == ["it would start from device, not from host"] * 2
    assert (state.of("host").median_s, state.of("host").counted) == (None, ())


@pytest.mark.parametrize("before", ["device", "host", "disk", "pinned"])
def test_the_adapter_is_put_back(bench: Bench, before: str) -> None:
    """Tier, pin, its reason and its end are as they were, after a whole comparison and after one that was stopped."""
    engine = bench.served.engine
    if before == "pinned":
        engine.control("pin", "x", reason="hot", until_unix=time.time() + 600, caller=replace(SYSTEM, name="ana")).result(20)
    if before != "disk":
        engine.control("warm", "x", tier="host" if before == "host" else "device").result(20)
    entry = bench.served.entry("x")
    tier, pin = bench.served.host.call(lambda: (bench.served.host.residency.state(entry.record.id), entry.pin))
    image = next(bench.served.data.rglob("*.image")).read_bytes()
    for repeats, stop in ((1, False), (50, True)):
        bench.begin(repeats=repeats, lanes=NEAR)
        if stop:
            bench.until(lambda state: state.now is not None and state.now[0] == "remote")
            bench.cold_warm.stop()
        state = bench.until(lambda state: state.phase == "idle")
        assert (state.stopped, state.fault) == (stop, "")
        after = bench.served.host.call(lambda: (bench.served.host.residency.state(entry.record.id), entry.pin))
        assert after == (tier, pin)
        assert bench.served.host.residency.disk.path(entry.record.id).read_bytes() == image
        assert leftovers(bench) == []


@pytest.mark.parametrize("lane", ["remote", "merge", "replica"])
def test_a_stop_half_way_leaves_nothing(bench: Bench, lane: LaneName) -> None:
    """In the middle of a download, a merge or a replica's start: no process, no thread, no file, the adapter back on disk."""
    bench.begin(repeats=50, lanes=(lane,), store_bytes_per_s=SLOW)
    bench.until(lambda state: state.now == (lane, 1))
    time.sleep(0.3)
    bench.cold_warm.close()
    assert (bench.cold_warm.state.phase, bench.cold_warm.state.restored) == ("idle", "disk")
    assert leftovers(bench) == []
    bench.cold_warm.reset()
    assert bench.cold_warm.state.options is None


def test_an_engine_that_stops_ends_the_comparison_first(bench: Bench) -> None:
    """The replica's process ends with the engine, and the adapter is put back before."""
    bench.begin(repeats=50, lanes=("replica",))
    bench.until(lambda state: state.now == ("replica", 1))
    time.sleep(0.3)
    bench.served.engine.stop()
    assert bench.cold_warm.state.restored == "disk"
    assert leftovers(bench) == []


def test_a_replica_ends_with_who_started_it(tiny_base: Path, tmp_path: Path) -> None:
    """Its standard input closes, as when its parent is killed, and it goes."""
    child = subprocess.Popen([sys.executable, "-m", "engine.lanes.replica"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    assert b"imported" in child.stdout.readline()
    child.stdin.write(b'{"settings": {"base": "%s", "data": "%s"}}\n' % (bytes(tiny_base / "gone"), bytes(tmp_path)))
    child.stdin.close()
    assert child.wait(30) != 0
    child.stdout.close()


def test_one_comparison_at_a_time(bench: Bench) -> None:
    """A second one is refused while the first runs; the base is no adapter."""
    bench.begin(repeats=50, lanes=("pinned",))
    with pytest.raises(Conflict) as caught:
        bench.begin()
    assert caught.value.code == "comparison_running"
    bench.cold_warm.close()
    with pytest.raises(Conflict):
        bench.begin(adapter=bench.served.engine.base_name)


def test_the_store_is_as_slow_as_it_says(tmp_path: Path, bench: Bench) -> None:
    """The download of each remote run takes at least size over limit, and not much more."""
    size = next(bench.served.data.rglob("*.image")).stat().st_size
    state = bench.run(repeats=2, lanes=("remote",), store_bytes_per_s=size * 2)
    for run in state.of("remote").counted:
        (download,) = [phase for phase in run.phases if phase.name == "download"]
        assert 0.5 <= download.duration_s < 1.5
    file = tmp_path / "other"
    file.write_bytes(b"x")
    with ArtifactStore(file, bytes_per_s=1) as store:
        other = DiskTier(tmp_path / "tier", pin_memory=False)
        with pytest.raises(OSError, match="404"):
            HttpOrigin(store.url + "x").fetch(other.folder / "y")


def test_other_traffic_is_counted(bench: Bench) -> None:
    """Requests of somebody else that run meanwhile are on the runs, which still count; without any the number is 0."""

    async def beside() -> None:
        bench.begin(repeats=1, lanes=("pinned",))
        while bench.cold_warm.state.phase != "idle":
            await bench.served.ask(None, max_tokens=100)

    asyncio.run(beside())
    (run,) = bench.cold_warm.state.of("pinned").counted
    assert run.others >= 1
    (alone,) = bench.run(repeats=1, lanes=("pinned",)).of("pinned").counted
    assert alone.others == 0


def test_an_image_that_was_away_when_the_process_ended_comes_back(bench: Bench) -> None:
    """The next start finds it on disk again."""
    disk = bench.served.host.residency.disk
    adapter = bench.served.entry("x").record.id
    disk.send_away(adapter, HttpOrigin("http://127.0.0.1:1/gone"))
    assert not disk.path(adapter).exists()
    DiskTier(disk.folder, pin_memory=False).sweep({adapter})
    assert disk.path(adapter).exists()
