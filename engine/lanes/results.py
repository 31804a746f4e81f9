"""What a comparison of lanes is asked and what it finds: frozen values for the console."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

from engine.ids import AdapterId

LaneName = Literal["pinned", "host", "disk", "remote", "merge", "replica"]
LANES: tuple[LaneName, ...] = ("pinned", "host", "disk", "remote", "merge", "replica")
"""In the order in which they are measured, round by round."""
PhaseKind = Literal["start", "adapter", "base", "warm_up", "prefill"]
PageCache = Literal["dropped", "warm", "unknown"]
"""Whether the system had forgotten the image before it was read; ``unknown`` where it cannot be asked."""
LIKELY_TOKENS = 24
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdWarmOptions:
    """What to measure. ``adapter`` is an alias or a version id."""

    adapter: str
    prompt_ids: tuple[int, ...]
    repeats: int = 10
    new_tokens: int = LIKELY_TOKENS
    store_bytes_per_s: int = 50 * MIB
    lanes: tuple[LaneName, ...] = LANES


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePhase:
    """A measured part of the time to the first token."""

    name: str
    kind: PhaseKind
    start_s: float
    """Seconds after the run began."""
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """What was read just before a run, and what the lane's name says."""

    expected: str
    found: str
    page_cache: PageCache | None = None
    """None where no file is read."""

    @property
    def holds(self) -> bool:
        """Whether the run starts from where its lane says."""
        return self.expected == self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """One run of one lane. It counts when its start state held and it came to its end."""

    lane: LaneName
    number: int
    """From 1."""
    start: StartState | None = None
    ttft_s: float | None = None
    """From the call to the first token in the caller's hands."""
    phases: tuple[LanePhase, ...] = ()
    token_ids: tuple[int, ...] = ()
    others: int = 0
    """Other requests that were computed meanwhile."""
    process_bytes: int | None = None
    """Resident memory of the process that answered; the replica's own only."""
    fault: str = ""
    """Why it does not count."""

    @property
    def counts(self) -> bool:
        """Whether it is part of the lane's median."""
        return not self.fault and self.ttft_s is not None and self.start is not None and self.start.holds


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneResult:
    """All runs of one lane so far."""

    lane: LaneName
    runs: tuple[LaneRun, ...] = ()
    skipped: str = ""
    """Why it is not measured at all on this machine."""

    @property
    def counted(self) -> tuple[LaneRun, ...]:
        """The runs that count."""
        return tuple(run for run in self.runs if run.counts)

    @property
    def times_s(self) -> tuple[float, ...]:
        """Of the runs that count."""
        return tuple(run.ttft_s for run in self.counted if run.ttft_s is not None)

    @property
    def median_s(self) -> float | None:
        """None before the first run that counts."""
        return statistics.median(self.times_s) if self.times_s else None

    @property
    def range_s(self) -> tuple[float, float] | None:
        """Shortest and longest; None before the first run that counts."""
        return (min(self.times_s), max(self.times_s)) if self.times_s else None

    @property
    def typical(self) -> LaneRun | None:
        """The run nearest the median, whose phases stand for the lane's."""
        return sorted(self.counted, key=lambda run: run.ttft_s or 0.0)[(len(self.counted) - 1) // 2] if self.counted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a run's text leaves the first one's."""

    lane: LaneName
    number: int
    token: int
    """Index of the first token that is not the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdWarmState:
    """A comparison at one moment, replaced whole."""

    phase: Literal["idle", "running", "restoring"] = "idle"
    options: ColdWarmOptions | None = None
    """None before the first."""
    adapter: AdapterId | None = None
    alias: str = ""
    results: tuple[LaneResult, ...] = field(default_factory=lambda: tuple(LaneResult(lane=lane) for lane in LANES))
    now: tuple[LaneName, int] | None = None
    """The lane and run under way."""
    began_unix: float | None = None
    ended_unix: float | None = None
    load_before: float | None = None
    """Processes that wanted a core in the minute before, whoever they belong to; None where the system does not say."""
    stopped: bool = False
    """Whether it was ended before its last run."""
    fault: str = ""
    """What ended it early, when that was no wish."""
    restored: str = ""
    """Where the adapter is again, once the comparison has ended."""
    text: str = ""
    """The first counted run's."""

    def of(self, lane: LaneName) -> LaneResult:
        """One lane's result."""
        return next(result for result in self.results if result.lane == lane)

    @property
    def counted(self) -> tuple[LaneRun, ...]:
        """Every run that counts, lane by lane."""
        return tuple(run for result in self.results for run in result.counted)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Runs whose tokens are not those of the first; empty when all are the same."""
        runs = self.counted
        return tuple(
            Difference(lane=run.lane, number=run.number, token=_first_difference(runs[0].token_ids, run.token_ids))
            for run in runs
            if run.token_ids != runs[0].token_ids
        )


def _first_difference(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
