"""One run of one lane: bring the adapter to the start, prove that it is there, measure, and write down what was found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from engine.errors import LoradeckError
from engine.lanes.merged import merge_and_answer
from engine.lanes.replica_process import answer_in_process
from engine.lanes.results import LaneRun
from engine.lanes.served import ask, greedy_request

if TYPE_CHECKING:
    from pathlib import Path

    from engine.adapters.origin import HttpOrigin
    from engine.engine import Engine
    from engine.lanes.halt import Halt
    from engine.lanes.placement import Placement
    from engine.lanes.results import ColdWarmOptions, LaneName
    from engine.lanes.served import LaneAnswer
    from engine.request import Request
    from engine.version import VersionRecord


class LaneRuns:
    """How each lane is brought to its start and measured. Used by the comparison's thread alone."""

    def __init__(
        self, engine: Engine, placement: Placement, halt: Halt, *, record: VersionRecord, origin: HttpOrigin, replica: Path
    ) -> None:
        """``origin`` has the adapter's image; ``replica`` is the data folder of the replicas."""
        self._engine, self._host = engine, engine.host
        self._placement, self._halt = placement, halt
        self._record, self._origin, self._replica = record, origin, replica

    def warm_up(self, options: ColdWarmOptions) -> None:
        """One request that is not measured, so that the first lane does not pay for what a running server has behind it."""
        ask(self._engine, self._host, greedy_request(options, self._record.id), self._halt)

    def run(self, lane: LaneName, number: int, options: ColdWarmOptions) -> LaneRun:
        """One run; what goes wrong is written on it. Raises Halted."""
        run = LaneRun(lane=lane, number=number)
        try:
            run = dataclasses.replace(run, start=self._placement.bring_to(lane, self._origin))
            assert run.start is not None
            if not run.start.holds:
                return dataclasses.replace(run, fault=f"it would start from {run.start.found}, not from {run.start.expected}")
            step = self._engine.snapshot().step
            request, since_s = greedy_request(options, self._record.id), self._engine.clock.now_s()
            answer = self._answer(lane, request)
            others = self._others(step, since_s, request)
        except (LoradeckError, OSError) as refusal:
            return dataclasses.replace(run, fault=getattr(refusal, "message", str(refusal)))
        return dataclasses.replace(
            run,
            ttft_s=answer.ttft_s, phases=answer.phases, token_ids=answer.token_ids, process_bytes=answer.process_bytes,
            fault=answer.fault, others=others,
        )  # fmt: skip

    def _answer(self, lane: LaneName, request: Request) -> LaneAnswer:
        if lane == "merge":
            return merge_and_answer(self._host, self._record.id, request, self._halt)
        if lane == "replica":
            return answer_in_process(self._host, self._replica, self._record, request, self._halt)
        return ask(self._engine, self._host, request, self._halt)

    def _others(self, step: int, since_s: float, request: Request) -> int:
        """Other requests with a row in a step since then."""
        steps = (each for each in self._engine.steps(step) if each.started_s + each.duration_s >= since_s)
        return len({row.request for each in steps for row in each.rows} - {request.id})
