"""Rows of what runs, what waits and what was computed together, for the snapshot and the playground."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.snapshot import RequestsSnapshot, RunningRow, WaitingRow
from engine.step_record import StepRecord, StepRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.plan import StepPlan
    from engine.sequence import Sequence


def requests_snapshot(running: Iterable[Sequence], waiting: Iterable[Sequence], now_s: float) -> RequestsSnapshot:
    """Rows of what runs and what waits."""
    return RequestsSnapshot(
        running=tuple(
            RunningRow(
                id=seq.request.id,
                tenant=seq.tenant,
                model=seq.request.model,
                adapter=seq.adapter,
                prompt_tokens=seq.num_prompt,
                output_tokens=seq.num_output,
                phase="prefill" if seq.num_uncomputed > 1 else "decode",
                running_s=now_s - (seq.scheduled_s or now_s),
            )
            for seq in running
        ),
        waiting=tuple(
            WaitingRow(
                id=seq.request.id,
                tenant=seq.tenant,
                model=seq.request.model,
                adapter=seq.adapter,
                reason=seq.wait_reason or "batch_full",
                waited_s=now_s - seq.arrived_s,
            )
            for seq in waiting
        ),
    )


def step_record(plan: StepPlan, started_s: float, duration_s: float) -> StepRecord:
    """A plan that ran, as the playground draws it."""
    return StepRecord(
        step=plan.step,
        started_s=started_s,
        duration_s=duration_s,
        rows=tuple(
            StepRow(
                request=row.sequence.request.id,
                index=row.sequence.index,
                phase=row.phase,
                tokens=row.num_tokens,
                adapter=row.sequence.adapter,
                samples=row.samples,
            )
            for row in plan.rows
        ),
        num_adapters=len({row.sequence.adapter for row in plan.rows} - {None}),
    )
