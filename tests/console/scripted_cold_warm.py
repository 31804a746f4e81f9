"""A comparison made of numbers: what a real one would publish, without its minutes."""

from __future__ import annotations

import dataclasses
import time
from typing import Final

from engine import (
    LANES,
    LOCAL,
    AdapterId,
    Caller,
    ColdWarmOptions,
    ColdWarmState,
    Conflict,
    LaneName,
    LanePhase,
    LaneResult,
    LaneRun,
    PhaseKind,
    StartState,
)

STARTS: Final[dict[LaneName, str]] = {
    "pinned": "device, pinned",
    "host": "host",
    "disk": "disk",
    "remote": "remote",
    "merge": "files on disk",
    "replica": "no process",
}
PHASES: Final[dict[LaneName, tuple[tuple[str, PhaseKind, float], ...]]] = {
    "pinned": (("queue", "start", 0.001), ("prefill", "prefill", 0.011)),
    "host": (("queue", "start", 0.001), ("copy", "adapter", 0.003), ("prefill", "prefill", 0.011)),
    "disk": (("queue", "start", 0.001), ("read", "adapter", 0.032), ("verify", "adapter", 0.022), ("prefill", "prefill", 0.014)),
    "remote": (("queue", "start", 0.002), ("download", "adapter", 0.588), ("read", "adapter", 0.04), ("prefill", "prefill", 0.011)),
    "merge": (("read base", "base", 3.4), ("merge", "adapter", 0.9), ("build model", "warm_up", 2.4), ("prefill", "prefill", 0.2)),
    "replica": (("process start", "start", 8.9), ("read base", "base", 4.1), ("start engine", "warm_up", 6.2), ("prefill", "prefill", 0.2)),
}


class ScriptedColdWarm:
    """The public face of a comparison; ``wrong`` gives the disk lane a warm page cache, the replica another text, host a wrong start."""

    def __init__(self, *, wrong: bool = False) -> None:
        self.state = ColdWarmState()
        self.wrong = wrong

    def start(self, options: ColdWarmOptions, *, caller: Caller = LOCAL) -> None:
        """Half of the lanes at once, the rest by ``finish``."""
        caller.need("operator", everywhere=True)
        if self.state.phase != "idle":
            raise Conflict("A comparison is under way already; stop it first.", code="comparison_running")
        self.state = ColdWarmState(
            phase="running",
            options=options,
            adapter=AdapterId("5f0a93d7" * 4),
            alias=options.adapter,
            began_unix=time.time(),
            now=("remote", 1),
            results=tuple(self._result(lane, options.repeats if lane in LANES[:3] else 0) for lane in LANES),
        )

    def stop(self, *, caller: Caller = LOCAL) -> None:
        """As wished."""
        caller.need("operator", everywhere=True)
        self.finish(stopped=True)

    def reset(self, *, caller: Caller = LOCAL) -> None:
        """Nothing was measured."""
        caller.need("operator", everywhere=True)
        self.state = ColdWarmState()

    def finish(self, *, stopped: bool = False) -> None:
        """The rest of the lanes, and the end."""
        options = self.state.options
        if options is None or self.state.phase == "idle":
            return
        self.state = dataclasses.replace(
            self.state,
            phase="idle",
            now=None,
            ended_unix=time.time(),
            stopped=stopped,
            restored="device, pinned",
            text="Yes, once per contract year. Clause 7.2 caps the increase at the consumer price index and asks for 60 days' notice.",
            results=tuple(self._result(lane, options.repeats) for lane in LANES),
        )

    def _result(self, lane: LaneName, runs: int) -> LaneResult:
        return LaneResult(lane=lane, runs=tuple(self._run(lane, number) for number in range(1, runs + 1)))

    def _run(self, lane: LaneName, number: int) -> LaneRun:
        stretch = 1 + 0.04 * ((number * 7) % 5 - 1)
        phases, at_s = [], 0.0
        for name, kind, seconds in PHASES[lane]:
            phases.append(LanePhase(name=name, kind=kind, start_s=at_s, duration_s=seconds * stretch))
            at_s += seconds * stretch
        bad_start = self.wrong and lane == "host" and number == 1
        cache = ("warm" if self.wrong else "dropped") if lane == "disk" else None
        return LaneRun(
            lane=lane,
            number=number,
            start=StartState(expected=STARTS[lane], found="device" if bad_start else STARTS[lane], page_cache=cache),  # type: ignore[arg-type]
            ttft_s=at_s,
            phases=tuple(phases),
            token_ids=(*range(23), 99 if self.wrong and lane == "replica" else 23),
            fault="it would start from device, not from host" if bad_start else "",
            process_bytes=1_100 * 2**20 + number if lane == "replica" else None,
            others=2 if self.wrong and lane == "merge" else 0,
        )
