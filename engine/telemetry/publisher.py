"""What the engine tells the rest of the process: the latest snapshot, events, steps and finished requests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine.events import AdapterEvicted, RequestPreempted
from engine.snapshot import EMPTY, EngineSnapshot, LoadRecord, RatesSnapshot, RequestsSnapshot, TenantRow, TotalsSnapshot
from engine.step_record import StepRecord
from engine.telemetry.cumulative import Cumulative
from engine.telemetry.event_log import EventLog
from engine.telemetry.fairness import FairnessMeter
from engine.telemetry.ring import Ring
from engine.telemetry.windows import AdapterTraffic, Windows

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.events import Event, EventPage
    from engine.ids import AdapterId, RequestId, TenantId
    from engine.request import RequestRecord

STEPS_KEPT = 2048
RECORDS_KEPT = 4096
LOADS_KEPT = 512


class Publisher:
    """The engine thread records; any thread reads ``snapshot``, the rings and ``cumulative``.

    Only ``record_event`` may be called from another thread. ``rates``, ``tenants`` and ``adapter`` move windows forward
    and are for the engine thread, which puts what they give into the snapshot.
    """

    def __init__(self, clock: Clock) -> None:
        self.snapshot: EngineSnapshot = EMPTY
        self.cumulative = Cumulative()
        self.fairness = FairnessMeter(started_s=clock.now_s())
        self._clock = clock
        self._windows = Windows(started_s=clock.now_s())
        self.event_log = EventLog()
        self._steps: Ring[StepRecord] = Ring(STEPS_KEPT)
        self._records: Ring[RequestRecord] = Ring(RECORDS_KEPT)
        self._loads: Ring[LoadRecord] = Ring(LOADS_KEPT)
        self._token_s: dict[RequestId, dict[int, float]] = {}
        """When the step of each choice's newest token ended."""
        self._ended: list[RequestId] = []
        """Requests that ended since the last step was recorded: in that step, or between two."""
        self._event_lock = threading.Lock()

    def publish(self, snapshot: EngineSnapshot) -> None:
        """Replace the latest snapshot, whole."""
        self.snapshot = snapshot

    def record_request(self, record: RequestRecord) -> None:
        """A request ended, in whatever way."""
        self._records.append(record)
        self.cumulative.record_request(record)
        self._windows.record_request(record, now_s=self._clock.now_s())
        self.fairness.record_request(record, now_s=self._clock.now_s())
        self._ended.append(record.id)

    def forget_adapter(self, adapter: AdapterId) -> None:
        """It is no longer registered: its window goes, its records stay as long as others."""
        self._windows.forget(adapter)

    def record_step(self, step: StepRecord, *, output_tokens: int) -> None:
        """A forward pass ended and yielded so many tokens."""
        self._steps.append(step)
        self.cumulative.record_step(output_tokens=output_tokens)
        gaps_s = self._gaps_s(step)
        for request in self._ended:
            self._token_s.pop(request, None)
        self._ended.clear()
        for gap_s in gaps_s:
            self.cumulative.inter_token_s.observe(gap_s)
        self._windows.record_step(
            step.duration_s,
            prompt_tokens=sum(row.tokens for row in step.rows if row.phase == "prefill"),
            output_tokens=output_tokens,
            gaps_s=gaps_s,
            now_s=self._clock.now_s(),
        )

    def record_load(self, load: LoadRecord) -> None:
        """A load to the device ended."""
        self._loads.append(load)
        self.cumulative.record_load(load)

    def record_event(self, event: Event) -> int:
        """Something rare happened; returns the event's number. Any thread."""
        with self._event_lock:
            if isinstance(event, AdapterEvicted):
                self.cumulative.evictions.add(event.because)
            elif isinstance(event, RequestPreempted):
                self.cumulative.preemptions += 1
            return self.event_log.append(event)

    def events(self, after: int = 0, limit: int = 500, *, tenant: TenantId | None = None) -> EventPage:
        """Events numbered above ``after``, oldest first; with a tenant those that it is told, in its own numbers."""
        return self.event_log.page(after, limit=limit, tenant=tenant)

    def steps(self, after: int = 0) -> tuple[StepRecord, ...]:
        """Kept steps above step ``after``, oldest first."""
        return tuple(step for step in self._steps.all() if step.step > after)

    def records(self, after_s: float = 0.0) -> tuple[RequestRecord, ...]:
        """Kept requests that ended after ``after_s`` (monotonic seconds), oldest first."""
        return tuple(record for record in self._records.all() if record.arrived_s + record.e2e_s > after_s)

    def loads(self) -> tuple[LoadRecord, ...]:
        """The newest loads, oldest first."""
        return self._loads.all()

    def totals(self) -> TotalsSnapshot:
        """Counters since start."""
        return self.cumulative.totals()

    def rates(self, now_s: float) -> RatesSnapshot:
        """The last minute, whole engine. Engine thread only."""
        return self._windows.rates(now_s)

    def tenants(self, now_s: float, live: RequestsSnapshot | None = None) -> tuple[TenantRow, ...]:
        """The last minute by tenant, with what runs and waits in ``live``. Engine thread only."""
        return self._windows.tenants(now_s, live or RequestsSnapshot())

    def adapter(self, adapter: AdapterId, now_s: float) -> AdapterTraffic | None:
        """One adapter's traffic; None if it never answered. Engine thread only."""
        return self._windows.adapter(adapter, now_s)

    def _gaps_s(self, step: StepRecord) -> list[float]:
        """Seconds since the previous token of each choice that gave another; the first token of each sets the mark."""
        ended_s = step.started_s + step.duration_s
        gaps_s = []
        for row in step.rows:
            if row.samples:
                of_request = self._token_s.setdefault(row.request, {})
                if row.index in of_request:
                    gaps_s.append(ended_s - of_request[row.index])
                of_request[row.index] = ended_s
        return gaps_s
