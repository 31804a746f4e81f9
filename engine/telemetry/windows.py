"""What happened in the last minute: rates, by tenant and by adapter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.snapshot import RatesSnapshot, RequestsSnapshot, TenantRow
from engine.telemetry.meters import RollingMeter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ids import AdapterId, TenantId
    from engine.request import RequestRecord

WINDOW_S = 60.0
FEWEST_FOR_P99 = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTraffic:
    """One adapter's requests: the window's rate and TTFT, and counts since start."""

    requests: int
    requests_per_min: float
    ttft_p95_s: float | None
    hits: int
    cold_starts: int
    ended_s: float
    """When the newest of them ended."""


class _TenantWindow:
    """One tenant's meters. Owned by ``Windows``."""

    def __init__(self) -> None:
        self.ttft_s = RollingMeter(window_s=WINDOW_S)
        self.tokens = RollingMeter(window_s=WINDOW_S)
        self.cold = RollingMeter(window_s=WINDOW_S)
        self.errors = RollingMeter(window_s=WINDOW_S)
        self.waits_s: dict[str, RollingMeter] = {}

    def wait_shares(self, now_s: float) -> tuple[tuple[str, float], ...]:
        """(reason, share of the time waited), largest first."""
        waited = {reason: meter.total(now_s) for reason, meter in self.waits_s.items()}
        total = sum(waited.values())
        shares = [(reason, seconds / total) for reason, seconds in waited.items() if seconds > 0]
        return tuple(sorted(shares, key=lambda share: -share[1]))


class _AdapterWindow:
    """One adapter's meters. Owned by ``Windows``."""

    def __init__(self) -> None:
        self.ttft_s = RollingMeter(window_s=WINDOW_S)
        self.arrivals = RollingMeter(window_s=WINDOW_S)
        self.requests = 0
        self.hits = 0
        self.cold_starts = 0
        self.ended_s = 0.0

    def record(self, record: RequestRecord, now_s: float) -> None:
        """Count one finished request."""
        self.arrivals.observe(record.e2e_s, now_s=now_s)
        self.requests += 1
        self.hits += record.tier_at_arrival == "device"
        self.cold_starts += record.adapter_load_s > 0
        self.ended_s = now_s
        if record.ttft_s is not None:
            self.ttft_s.observe(record.ttft_s, now_s=now_s)


class Windows:
    """Rolling meters over ``WINDOW_S`` seconds. Owned by the engine thread, reads included."""

    def __init__(self, *, started_s: float) -> None:
        self._started_s = started_s
        self._tenants: dict[TenantId, _TenantWindow] = {}
        self._adapters: dict[AdapterId, _AdapterWindow] = {}
        self._requests = RollingMeter(window_s=WINDOW_S)
        self._errors = RollingMeter(window_s=WINDOW_S)
        self._ttft_s = RollingMeter(window_s=WINDOW_S)
        self._inter_token_s = RollingMeter(window_s=WINDOW_S)
        self._queue_s = RollingMeter(window_s=WINDOW_S)
        self._adapter_load_s = RollingMeter(window_s=WINDOW_S)
        self._prefill_s = RollingMeter(window_s=WINDOW_S)
        self._decode_token_s = RollingMeter(window_s=WINDOW_S)
        self._hits = RollingMeter(window_s=WINDOW_S)
        self._cold_starts = RollingMeter(window_s=WINDOW_S)
        self._step_s = RollingMeter(window_s=WINDOW_S)
        self._output_tokens = RollingMeter(window_s=WINDOW_S)
        self._prompt_tokens = RollingMeter(window_s=WINDOW_S)

    def record_request(self, record: RequestRecord, *, now_s: float) -> None:
        """Count one finished request."""
        self._requests.observe(record.e2e_s, now_s=now_s)
        self._queue_s.observe(record.queue_s, now_s=now_s)
        self._adapter_load_s.observe(record.adapter_load_s, now_s=now_s)
        if record.finish_reason == "error":
            self._errors.observe(1, now_s=now_s)
        if record.ttft_s is not None:
            self._ttft_s.observe(record.ttft_s, now_s=now_s)
        if record.prefill_s is not None:
            self._prefill_s.observe(record.prefill_s, now_s=now_s)
        if record.decode_s is not None and record.completion_tokens > 1:
            self._decode_token_s.observe(record.decode_s / (record.completion_tokens - 1), now_s=now_s)
        self._record_tenant(record, now_s)
        if record.adapter is not None:
            self._record_adapter(record.adapter, record, now_s)

    def _record_tenant(self, record: RequestRecord, now_s: float) -> None:
        window = self._tenants.setdefault(record.tenant, _TenantWindow())
        window.tokens.observe(record.completion_tokens, now_s=now_s)
        if record.ttft_s is not None:
            window.ttft_s.observe(record.ttft_s, now_s=now_s)
        if record.adapter is not None:
            window.cold.observe(float(record.adapter_load_s > 0), now_s=now_s)
        if record.finish_reason == "error":
            window.errors.observe(1, now_s=now_s)
        for reason, seconds in record.waits:
            window.waits_s.setdefault(reason, RollingMeter(window_s=WINDOW_S)).observe(seconds, now_s=now_s)

    def _record_adapter(self, adapter: AdapterId, record: RequestRecord, now_s: float) -> None:
        self._hits.observe(float(record.tier_at_arrival == "device"), now_s=now_s)
        self._cold_starts.observe(float(record.adapter_load_s > 0), now_s=now_s)
        self._adapters.setdefault(adapter, _AdapterWindow()).record(record, now_s)

    def record_step(self, duration_s: float, *, prompt_tokens: int, output_tokens: int, gaps_s: Iterable[float], now_s: float) -> None:
        """Count one forward pass; ``gaps_s`` are the token gaps that ended with it."""
        self._step_s.observe(duration_s, now_s=now_s)
        self._prompt_tokens.observe(prompt_tokens, now_s=now_s)
        self._output_tokens.observe(output_tokens, now_s=now_s)
        for gap_s in gaps_s:
            self._inter_token_s.observe(gap_s, now_s=now_s)

    def _span_s(self, now_s: float) -> float:
        return min(WINDOW_S, max(1.0, now_s - self._started_s))

    def rates(self, now_s: float) -> RatesSnapshot:
        """The whole engine's window."""
        span_s = self._span_s(now_s)
        requests = self._requests.count(now_s)
        return RatesSnapshot(
            window_s=WINDOW_S,
            requests=requests,
            requests_per_s=requests / span_s,
            output_tokens_per_s=self._output_tokens.total(now_s) / span_s,
            prompt_tokens_per_s=self._prompt_tokens.total(now_s) / span_s,
            ttft_p50_s=self._ttft_s.percentile(0.5, now_s=now_s),
            ttft_p95_s=self._ttft_s.percentile(0.95, now_s=now_s),
            itl_p50_s=self._inter_token_s.percentile(0.5, now_s=now_s),
            itl_p95_s=self._inter_token_s.percentile(0.95, now_s=now_s),
            queue_mean_s=self._queue_s.mean(now_s),
            adapter_load_mean_s=self._adapter_load_s.mean(now_s),
            prefill_mean_s=self._prefill_s.mean(now_s),
            decode_per_token_s=self._decode_token_s.mean(now_s),
            hit_rate=self._hits.mean(now_s),
            cold_starts_per_min=self._cold_starts.total(now_s) * 60 / span_s,
            errors=self._errors.count(now_s),
            step_p50_s=self._step_s.percentile(0.5, now_s=now_s),
        )

    def tenants(self, now_s: float, live: RequestsSnapshot) -> tuple[TenantRow, ...]:
        """One row a tenant that finished a request or has one now, by name."""
        running = Counter(row.tenant for row in live.running)
        waiting = Counter(row.tenant for row in live.waiting)
        names = sorted({*self._tenants, *running, *waiting})
        return tuple(self._tenant(name, now_s, running=running[name], waiting=waiting[name]) for name in names)

    def _tenant(self, name: TenantId, now_s: float, *, running: int, waiting: int) -> TenantRow:
        window = self._tenants.get(name) or _TenantWindow()
        span_s = self._span_s(now_s)
        requests = window.tokens.count(now_s)
        return TenantRow(
            tenant=name,
            requests=requests,
            requests_per_s=requests / span_s,
            ttft_p50_s=window.ttft_s.percentile(0.5, now_s=now_s),
            ttft_p95_s=window.ttft_s.percentile(0.95, now_s=now_s),
            ttft_p99_s=window.ttft_s.percentile(0.99, now_s=now_s) if window.ttft_s.count(now_s) >= FEWEST_FOR_P99 else None,
            cold_share=window.cold.mean(now_s),
            waiting=waiting,
            running=running,
            wait_shares=window.wait_shares(now_s),
            tokens_per_s=window.tokens.total(now_s) / span_s,
            errors=window.errors.count(now_s),
        )

    def forget(self, adapter: AdapterId) -> None:
        """It is no longer registered."""
        self._adapters.pop(adapter, None)

    def adapter(self, adapter: AdapterId, now_s: float) -> AdapterTraffic | None:
        """One adapter's traffic; None if it never answered a request."""
        window = self._adapters.get(adapter)
        if window is None:
            return None
        return AdapterTraffic(
            requests=window.requests,
            requests_per_min=window.arrivals.count(now_s) * 60 / self._span_s(now_s),
            ttft_p95_s=window.ttft_s.percentile(0.95, now_s=now_s),
            hits=window.hits,
            cold_starts=window.cold_starts,
            ended_s=window.ended_s,
        )
