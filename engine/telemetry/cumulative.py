"""Everything counted since start; it only rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.snapshot import TotalsSnapshot
from engine.telemetry.meters import Histogram, LabelCounter, LabelHistograms

if TYPE_CHECKING:
    from engine.request import RequestRecord
    from engine.snapshot import LoadRecord

FIRST_TOKEN_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
PER_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
REQUEST_S = (
    0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
LOAD_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0)


class Cumulative:
    """Counters and histograms since start. The engine thread writes; readers copy."""

    def __init__(self, *, adapter_cap: int = 256, tenant_cap: int = 64) -> None:
        self.ttft_s = Histogram(FIRST_TOKEN_S)
        self.inter_token_s = Histogram(PER_TOKEN_S)
        self.per_output_token_s = Histogram(PER_TOKEN_S)
        self.e2e_s = Histogram(REQUEST_S)
        self.queue_s = Histogram(REQUEST_S)
        self.adapter_wait_s = Histogram(REQUEST_S)
        self.prefill_s = Histogram(REQUEST_S)
        self.decode_s = Histogram(REQUEST_S)
        self.prompt_tokens = Histogram(TOKENS)
        self.generation_tokens = Histogram(TOKENS)
        self.load_s = LabelHistograms(LOAD_S)
        self.load_phase_s = LabelHistograms(LOAD_S)
        self.finished = LabelCounter()
        self.waited_s = LabelCounter()
        self.evictions = LabelCounter()
        self.loads = LabelCounter()
        self.adapter_requests = LabelCounter(cap=adapter_cap)
        self.adapter_tokens = LabelCounter(cap=adapter_cap)
        self.tenant_requests = LabelCounter(cap=tenant_cap)
        self.tenant_tokens = LabelCounter(cap=tenant_cap)
        self.hits = 0
        self.misses = 0
        self.cold_starts = 0
        self.steps = 0
        self.cached_prompt_tokens = 0
        self.output_tokens = 0
        self.preemptions = 0

    def record_request(self, record: RequestRecord) -> None:
        """Count one finished request."""
        self.finished.add(record.finish_reason)
        self.prompt_tokens.observe(record.prompt_tokens)
        self.generation_tokens.observe(record.completion_tokens)
        self.cached_prompt_tokens += record.cached_tokens
        self.tenant_requests.add(record.tenant)
        self.tenant_tokens.add(record.tenant, record.prompt_tokens + record.completion_tokens)
        for reason, seconds in record.waits:
            self.waited_s.add(reason, seconds)
        self._record_times(record)
        if record.adapter is not None:
            self._record_adapter(record)

    def _record_times(self, record: RequestRecord) -> None:
        self.e2e_s.observe(record.e2e_s)
        self.queue_s.observe(record.queue_s)
        if record.ttft_s is not None:
            self.ttft_s.observe(record.ttft_s)
        if record.prefill_s is not None:
            self.prefill_s.observe(record.prefill_s)
        if record.decode_s is not None:
            self.decode_s.observe(record.decode_s)
            if record.completion_tokens > 1:
                self.per_output_token_s.observe(record.decode_s / (record.completion_tokens - 1))

    def _record_adapter(self, record: RequestRecord) -> None:
        self.adapter_requests.add(str(record.adapter))
        self.adapter_tokens.add(str(record.adapter), record.completion_tokens)
        self.adapter_wait_s.observe(record.adapter_load_s)
        self.hits += record.tier_at_arrival == "device"
        self.misses += record.tier_at_arrival != "device"
        self.cold_starts += record.adapter_load_s > 0

    def record_step(self, *, output_tokens: int) -> None:
        """Count one forward pass and the tokens it yielded."""
        self.steps += 1
        self.output_tokens += output_tokens

    def record_load(self, load: LoadRecord) -> None:
        """Count one load to the device, whole and by phase."""
        self.loads.add(load.outcome)
        if load.outcome == "ok":
            self.load_s.observe(load.from_tier, load.total_s)
            for phase in load.phases:
                self.load_phase_s.observe(phase.name, phase.duration_s)

    def totals(self) -> TotalsSnapshot:
        """The counters that a snapshot carries."""
        finished = self.finished.read()
        return TotalsSnapshot(
            requests=int(sum(finished.values())),
            errors=int(finished.get("error", 0)),
            cancelled=int(finished.get("cancelled", 0)),
            prompt_tokens=int(self.prompt_tokens.read().total),
            cached_prompt_tokens=self.cached_prompt_tokens,
            output_tokens=self.output_tokens,
            steps=self.steps,
            preemptions=self.preemptions,
            adapter_hits=self.hits,
            adapter_misses=self.misses,
            loads=int(self.loads.read().get("ok", 0)),
            evictions=int(sum(self.evictions.read().values())),
        )
