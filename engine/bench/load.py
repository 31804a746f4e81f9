"""What a load takes by tier and phase, and what it does to the streams beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from engine.bench.figures import Figure
from engine.bench.gaps import SteadyStreams, StepsAround, percentile, split
from engine.bench.stops import stops_of_machine
from engine.bench.timing import say, spread_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from engine.bench.gaps import Gap
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What ran while loads did, and when the machine ran nobody."""

    streams: SteadyStreams
    stops: Sequence[Window]
    rows: int


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
        with stops_of_machine() as stops:
            windows, streams = asyncio.run(_beside(rig, engine, mover))
    return [
        Figure(key="adapter_bytes", label="the adapter: rank 64 on all seven modules", value=mover.num_bytes, unit="B"),
        Figure(key="page_cache", label="page cache before a load from disk", value="dropped" if mover.drops_cache else "warm"),
        *(figure for tier, records in alone.items() for figure in _phase_figures(tier, records)),
        *_gap_figures(windows, Beside(streams=streams, stops=stops, rows=rig.options.rows)),
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


def _gap_figures(windows: dict[str, list[Window]], beside: Beside) -> Iterator[Figure]:
    """Gaps while nothing happened, then while something did: longest, p99, and by how many quiet steps of that time longer.

    Told apart, whatever else went on: rows that end ask again, and a step that runs their prompts is several long; and the machine
    that this one runs on may stop it.
    """
    stopped, rest = split(beside.streams.gaps, beside.stops)
    joining, gaps = split(rest, beside.streams.joins)
    _, quiet = split(gaps, [window for some in windows.values() for window in some])
    around = StepsAround(quiet, near=beside.rows * QUIET_STEPS)
    yield Figure(
        key="beside.step_ms", label="quiet: median gap, one step", value=_ms(percentile([gap.seconds for gap in quiet], 0.5)), unit="ms"
    )
    yield from _gaps_of("quiet", "quiet", quiet, around)
    for kind, label in (("host", "load from host"), ("disk", "load from disk"), ("evict", "eviction")):
        inside, _ = split(gaps, windows[kind])
        yield from _gaps_of(kind, label, inside, around)
        longest = [_longest(split(inside, [window])[0], around) for window in windows[kind]]
        known = [steps for steps in longest if steps is not None]
        yield Figure(
            key=f"beside.{kind}.typical_change_steps", label=f"{label}: longest gap less one step, median of {len(known)}",
            value=median(known) - 1 if known else None, unit="steps",
        )  # fmt: skip
    yield from _gaps_of("join", "rows that ask again", joining, around)
    yield from _gaps_of("stop", "the whole machine stopped", stopped, around)


def _gaps_of(kind: str, label: str, gaps: Sequence[Gap], around: StepsAround) -> Iterator[Figure]:
    seconds = [gap.seconds for gap in gaps]
    steps = [length for length in map(around.steps, gaps) if length is not None]
    longest = _longest(gaps, around)
    yield Figure(key=f"beside.{kind}.gaps", label=f"{label}: gaps seen", value=len(gaps))
    yield Figure(key=f"beside.{kind}.max_gap_ms", label=f"{label}: longest gap", value=_ms(max(seconds, default=None)), unit="ms")
    yield Figure(key=f"beside.{kind}.p99_gap_ms", label=f"{label}: p99 gap", value=_ms(percentile(seconds, 0.99)), unit="ms")
    yield Figure(key=f"beside.{kind}.max_gap_steps", label=f"{label}: longest gap", value=longest, unit="steps")
    yield Figure(key=f"beside.{kind}.p99_gap_steps", label=f"{label}: p99 gap", value=percentile(steps, 0.99), unit="steps")
    change = None if longest is None else longest - 1
    yield Figure(key=f"beside.{kind}.change_steps", label=f"{label}: longest gap less one step", value=change, unit="steps")


def _longest(gaps: Sequence[Gap], around: StepsAround) -> float | None:
    return max((steps for steps in map(around.steps, gaps) if steps is not None), default=None)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
