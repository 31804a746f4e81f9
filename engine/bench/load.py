"""What a load takes by tier and phase, and what it does to the streams beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Literal

from engine.bench.figures import Figure, ratio
from engine.bench.gaps import SteadyStreams, percentile, split
from engine.bench.timing import say, spread_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from engine.bench.rig import Rig
    from engine.control import ControlOutcome
    from engine.engine import Engine
    from engine.snapshot import LoadRecord

From = Literal["host", "disk"]
Window = tuple[float, float]
TIERS: tuple[From, ...] = ("host", "disk")
STREAM_TOKENS = 512
QUIET_STEPS = 8
"""Steps between an eviction and a load, and after a load: the quiet that loads are compared with."""
LARGEST = 3
"""Place in the heavy mix of an adapter of rank 64 on all seven modules."""


def load(rig: Rig) -> list[Figure]:
    """Loads of the largest adapter of the heavy mix, alone and beside ``--rows`` streams of the base."""
    largest = rig.sources("heavy", LARGEST + 1)[LARGEST]
    with rig.engine("load", [largest]) as engine:
        mover = Mover(engine, largest.alias, rig.settings("load").data)
        for tier in TIERS:
            mover.move(tier)
        say(f"loading alone, {rig.options.loads} times from each tier")
        alone = {tier: [mover.move(tier) for _ in range(rig.options.loads)] for tier in TIERS}
        say("loading beside streams")
        windows, streams = asyncio.run(_beside(rig, engine, mover))
    return [
        Figure(key="adapter_bytes", label="the adapter: rank 64 on all seven modules", value=mover.num_bytes, unit="B"),
        Figure(key="page_cache", label="page cache before a load from disk", value="dropped" if mover.drops_cache else "warm"),
        *(figure for tier, records in alone.items() for figure in _phase_figures(tier, records)),
        *_gap_figures(windows, streams),
    ]


class Mover:
    """Sends one adapter away and brings it back, by the door that operators use."""

    def __init__(self, engine: Engine, alias: str, data: Path) -> None:
        self._engine = engine
        self._alias = alias
        row = engine.control("warm", alias).result().adapter
        self.num_bytes = row.bytes
        self._image = next(data.rglob(f"{row.id}.image"))
        self.drops_cache = hasattr(os, "posix_fadvise")

    def evict(self, tier: From) -> Future[ControlOutcome]:
        """Leave the device for a tier."""
        return self._engine.control("evict", self._alias, tier=tier)

    def warm(self) -> Future[ControlOutcome]:
        """Come to the device."""
        return self._engine.control("warm", self._alias, tier="device")

    def move(self, tier: From) -> LoadRecord:
        """Out to a tier and back; waits for both."""
        self.evict(tier).result()
        self.drop_cache()
        return record_of(self.warm().result())

    def drop_cache(self) -> None:
        """Let the system forget the image, so that reading it is reading the disk."""
        if self.drops_cache:
            file = os.open(self._image, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def record_of(outcome: ControlOutcome) -> LoadRecord:
    """The load that a ``warm`` has just waited for."""
    record = outcome.adapter.last_load
    assert record is not None, "warm came back without a load"
    return record


async def _beside(rig: Rig, engine: Engine, mover: Mover) -> tuple[dict[str, list[Window]], SteadyStreams]:
    """Loads from both tiers in turn while streams run: windows in clock seconds by what happened, and the streams with their gaps."""
    context = rig.spec.max_position - rig.options.prompt_tokens
    streams = SteadyStreams(engine, dataclasses.replace(rig.traffic(0), new_tokens=min(STREAM_TOKENS, context)))
    windows: dict[str, list[Window]] = defaultdict(list)
    async with streams.running():
        await streams.steps(QUIET_STEPS)
        for _ in range(rig.options.loads):
            for tier in TIERS:
                left_s = engine.clock.now_s()
                await asyncio.wrap_future(mover.evict(tier))
                await streams.steps(2)
                windows["evict"].append((left_s, engine.clock.now_s()))
                await asyncio.to_thread(mover.drop_cache)
                await streams.steps(QUIET_STEPS)
                record = record_of(await asyncio.wrap_future(mover.warm()))
                windows[tier].append((record.asked_s, record.asked_s + record.total_s))
                await streams.steps(QUIET_STEPS)
    return windows, streams


def _phase_figures(tier: From, records: Sequence[LoadRecord]) -> Iterator[Figure]:
    """Medians over loads, in the order in which phases come."""
    times_ms: dict[str, list[float]] = {}
    for record in records:
        for phase in record.phases:
            times_ms.setdefault(phase.name, []).append(phase.duration_s * 1e3)
    times_ms["total"] = [record.total_s * 1e3 for record in records]
    for name, values in times_ms.items():
        yield Figure(
            key=f"alone.{tier}.{name.replace(' ', '_')}_ms", label=f"{tier} → device: {name}", value=median(values), unit="ms",
            spread=spread_of(values),
        )  # fmt: skip


def _gap_figures(windows: dict[str, list[Window]], streams: SteadyStreams) -> Iterator[Figure]:
    """Gaps while nothing happened, then while something did: longest, p99, and by how many quiet steps longer.

    Rows that end ask again, and a step that runs their prompts is several long: such gaps are told apart, whatever else went on.
    """
    joining = [gap for gap in streams.gaps if any(map(gap.meets, streams.joins))]
    gaps = [gap for gap in streams.gaps if not any(map(gap.meets, streams.joins))]
    _, quiet = split(gaps, [window for some in windows.values() for window in some])
    step_s = percentile(quiet, 0.5)
    yield Figure(key="beside.step_ms", label="quiet: median gap, one step", value=_ms(step_s), unit="ms")
    yield from _gaps_of("quiet", "quiet", quiet, step_s)
    for kind, label in (("host", "load from host"), ("disk", "load from disk"), ("evict", "eviction")):
        inside, _ = split(gaps, windows[kind])
        yield from _gaps_of(kind, label, inside, step_s)
        longest = [max(split(gaps, [window])[0], default=None) for window in windows[kind]]
        known = [seconds for seconds in longest if seconds is not None]
        typical = median(known) if known else None
        yield Figure(
            key=f"beside.{kind}.typical_change_steps", label=f"{label}: longest gap less one step, median of {len(known)}",
            value=_change(typical, step_s), unit="steps",
        )  # fmt: skip
    yield from _gaps_of("join", "rows that ask again", [gap.seconds for gap in joining], step_s)


def _gaps_of(kind: str, label: str, gaps: Sequence[float], step_s: float | None) -> Iterator[Figure]:
    longest, p99 = max(gaps, default=None), percentile(gaps, 0.99)
    yield Figure(key=f"beside.{kind}.gaps", label=f"{label}: gaps seen", value=len(gaps))
    yield Figure(key=f"beside.{kind}.max_gap_ms", label=f"{label}: longest gap", value=_ms(longest), unit="ms")
    yield Figure(key=f"beside.{kind}.p99_gap_ms", label=f"{label}: p99 gap", value=_ms(p99), unit="ms")
    yield Figure(key=f"beside.{kind}.max_gap_steps", label=f"{label}: longest gap", value=ratio(longest, step_s), unit="steps")
    yield Figure(key=f"beside.{kind}.p99_gap_steps", label=f"{label}: p99 gap", value=ratio(p99, step_s), unit="steps")
    change = _change(longest, step_s)
    yield Figure(key=f"beside.{kind}.change_steps", label=f"{label}: longest gap less one step", value=change, unit="steps")


def _change(gap_s: float | None, step_s: float | None) -> float | None:
    steps = ratio(gap_s, step_s)
    return None if steps is None else steps - 1


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
