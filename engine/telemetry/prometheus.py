"""The engine's meters as Prometheus metrics: vLLM's names where one exists, ``loradeck_*`` for the rest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.telemetry.meters import HistogramReading

if TYPE_CHECKING:
    from engine.snapshot import EngineSnapshot
    from engine.telemetry.publisher import Publisher

Key = TypeVar("Key", bound=tuple[str, ...])

MOST_ADAPTERS = 256
"""Adapters with series of their own; names in one label are cut at the same number."""
MOST_TENANTS = 64
"""Tenants with a slowdown of their own: those with the most requests."""


class EngineCollector(Collector):
    """Reads the latest snapshot and the meters when scraped; holds no numbers of its own."""

    def __init__(self, publisher: Publisher, *, max_adapters: int) -> None:
        self._publisher = publisher
        self._max_adapters = max_adapters

    def collect(self) -> Iterator[Metric]:
        """All families. Any thread."""
        snapshot = self._publisher.snapshot
        yield from self._vllm_gauges(snapshot)
        yield from self._vllm_counters(snapshot.device.base)
        yield from self._vllm_histograms(snapshot.device.base)
        yield from _memory(snapshot)
        yield from _adapters(snapshot)
        yield from self._fairness(snapshot)
        yield from self._loradeck_counters(snapshot)
        yield from self._loradeck_histograms()

    def _vllm_gauges(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        base = snapshot.device.base
        memory = snapshot.memory
        waiting = len(snapshot.requests.waiting)
        reasons = _count(row.reason for row in snapshot.requests.waiting)
        kv_bytes = memory.kv_used_bytes + memory.kv_prefix_bytes
        kv_share = kv_bytes / (kv_bytes + memory.free_bytes) if kv_bytes + memory.free_bytes else 0.0
        yield _gauge("vllm:num_requests_running", "Sequences in the batch.", {(base,): len(snapshot.requests.running)}, ("model_name",))
        yield _gauge("vllm:num_requests_waiting", "Sequences that wait.", {(base,): waiting}, ("model_name",))
        by_reason = {(base, reason): count for reason, count in reasons.items()}
        yield _gauge("vllm:num_requests_waiting_by_reason", "Sequences that wait, by reason code.", by_reason, ("model_name", "reason"))
        yield _gauge(
            "vllm:kv_cache_usage_perc",
            "Keys and values, of all pages they could have now; 1 is full.",
            {(base,): kv_share},
            ("model_name",),
        )
        resident = [row.alias for row in snapshot.adapters if row.tier == "device"]
        wanted = sorted({row.model for row in snapshot.requests.waiting if row.adapter is not None})
        names = (str(self._max_adapters), ",".join(resident[:MOST_ADAPTERS]), ",".join(wanted[:MOST_ADAPTERS]))
        labels = ("max_lora", "running_lora_adapters", "waiting_lora_adapters")
        yield _gauge("vllm:lora_requests_info", "Adapters on the device, and those waited for; Unix seconds.", {names: time.time()}, labels)
        size = (str(snapshot.device.page_tokens), str(memory.arena_pages))
        yield _gauge("vllm:cache_config_info", "Pages of the arena.", {size: 1}, ("block_size", "num_gpu_blocks"))

    def _vllm_counters(self, model: str) -> Iterator[Metric]:
        meters, totals = self._publisher.cumulative, self._publisher.totals()
        yield _counter("vllm:prompt_tokens", "Prompt tokens of finished requests.", totals.prompt_tokens, model=model)
        yield _counter("vllm:generation_tokens", "Tokens generated.", totals.output_tokens, model=model)
        yield _counter("vllm:request_success", "Requests that ended, by reason.", meters.finished.read(), "finished_reason", model=model)
        yield _counter("vllm:num_preemptions", "Sequences that gave their pages back.", totals.preemptions, model=model)
        yield _counter("vllm:prefix_cache_queries", "Prompt tokens looked up.", totals.prompt_tokens, model=model)
        yield _counter(
            "vllm:prefix_cache_hits", "Prompt tokens whose keys and values were shared.", totals.cached_prompt_tokens, model=model
        )

    def _vllm_histograms(self, model: str) -> Iterator[Metric]:
        meters = self._publisher.cumulative
        yield _histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", meters.ttft_s.read(), model=model)
        yield _histogram(
            "vllm:inter_token_latency_seconds", "Gap between two tokens of a choice.", meters.inter_token_s.read(), model=model
        )
        yield _histogram(
            "vllm:request_time_per_output_token_seconds", "Mean gap of a request.", meters.per_output_token_s.read(), model=model
        )
        yield _histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", meters.e2e_s.read(), model=model)
        yield _histogram(
            "vllm:request_queue_time_seconds", "Wait for the first step, adapter loads left out.", meters.queue_s.read(), model=model
        )
        yield _histogram("vllm:request_prefill_time_seconds", "First step to first token.", meters.prefill_s.read(), model=model)
        yield _histogram("vllm:request_decode_time_seconds", "First token to end.", meters.decode_s.read(), model=model)
        yield _histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", meters.prompt_tokens.read(), model=model)
        yield _histogram("vllm:request_generation_tokens", "Tokens generated for a request.", meters.generation_tokens.read(), model=model)

    def _loradeck_counters(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        meters = self._publisher.cumulative
        yield _gauge(
            "loradeck_up", "1 while the engine serves.", {(snapshot.state,): int(snapshot.state in {"serving", "degraded"})}, ("state",)
        )
        yield _counter("loradeck_steps", "Forward passes.", meters.steps)
        yield _counter("loradeck_adapter_hits", "Adapter requests that found it on the device.", meters.hits)
        yield _counter("loradeck_adapter_misses", "Adapter requests that did not.", meters.misses)
        yield _counter("loradeck_cold_starts", "Requests that waited for their adapter.", meters.cold_starts)
        yield _counter("loradeck_adapter_loads", "Loads to the device, by outcome.", meters.loads.read(), "outcome")
        yield _counter("loradeck_adapter_evictions", "Adapters that left a tier, by reason.", meters.evictions.read(), "reason")
        yield _counter("loradeck_wait_seconds", "Time that requests waited, by reason.", meters.waited_s.read(), "reason")
        yield _counter("loradeck_adapter_requests", "Finished requests, by version.", meters.adapter_requests.read(), "adapter")
        yield _counter("loradeck_adapter_tokens", "Tokens generated, by version.", meters.adapter_tokens.read(), "adapter")
        yield _counter("loradeck_tenant_requests", "Finished requests, by tenant.", meters.tenant_requests.read(), "tenant")
        yield _counter("loradeck_tenant_tokens", "Prompt and output tokens, by tenant.", meters.tenant_tokens.read(), "tenant")

    def _fairness(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        meters, fairness = self._publisher.fairness, snapshot.fairness
        index: dict[tuple[str, ...], float] = {} if fairness.jain is None else {(): fairness.jain}
        yield _gauge("loradeck_fairness_jain", "Jain's index of the tenants that had requests waiting, last minute; 1 is even.", index, ())
        busiest = sorted(fairness.tenants, key=lambda row: (-row.requests, row.tenant))[:MOST_TENANTS]
        slowdowns: dict[tuple[str, ...], float] = {(row.tenant,): row.slowdown for row in busiest if row.slowdown is not None}
        yield _gauge("loradeck_tenant_slowdown", "Mean latency over that without waits, last minute.", slowdowns, ("tenant",))
        evictions, stalls_s = meters.evictions_caused.read(), meters.stalls_caused_s.read()
        yield _counter("loradeck_tenant_evictions_caused", "Evictions of other tenants' adapters, by who needed room.", evictions, "tenant")
        yield _counter("loradeck_tenant_stall_seconds_caused", "Waits of other tenants' requests, by who caused them.", stalls_s, "tenant")

    def _loradeck_histograms(self) -> Iterator[Metric]:
        meters = self._publisher.cumulative
        yield _histogram("loradeck_adapter_wait_seconds", "Wait of a request for its adapter.", meters.adapter_wait_s.read())
        yield _histogram("loradeck_adapter_load_seconds", "A load to the device, by the tier it came from.", meters.load_s.read(), "from")
        yield _histogram("loradeck_adapter_load_phase_seconds", "A phase of a load.", meters.load_phase_s.read(), "phase")


def _memory(snapshot: EngineSnapshot) -> Iterator[Metric]:
    """Every byte once: the parts add up to the total."""
    parts = {(name,): size for name, size in snapshot.memory.parts.items()}
    yield _gauge("loradeck_device_memory_bytes", "The device's memory by use; the parts add up to the total.", parts, ("part",))
    yield _gauge("loradeck_device_memory_total_bytes", "The device's memory.", {(): snapshot.memory.total_bytes}, ())
    yield _gauge("loradeck_host_memory_bytes", "Host memory that holds adapters.", {(): snapshot.memory.host_used_bytes}, ())


def _adapters(snapshot: EngineSnapshot) -> Iterator[Metric]:
    """How many adapters are where, and which are on the device or in host memory."""
    tiers = _count(row.tier for row in snapshot.adapters)
    yield _gauge(
        "loradeck_adapters", "Registered adapters by where they are.", {(tier,): count for tier, count in tiers.items()}, ("tier",)
    )
    pinned = sum(row.pinned for row in snapshot.adapters)
    yield _gauge("loradeck_adapters_pinned", "Adapters that may not be evicted.", {(): pinned}, ())
    near = [row for row in snapshot.adapters if row.tier in {"device", "host"}][:MOST_ADAPTERS]
    loaded = {(row.alias, row.tier, str(row.pinned).lower(), str(row.rank)): 1 for row in near}
    yield _gauge("vllm:lora_adapter_loaded", "Adapters in memory.", loaded, ("adapter_name", "level", "pinned", "rank"))


def _count(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _gauge(name: str, text: str, values: Mapping[Key, float], labels: tuple[str, ...]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: float | Mapping[str, float], label: str = "", *, model: str | None = None) -> Metric:
    """One series, or one a value of ``label``; ``model`` adds vLLM's ``model_name``."""
    family = CounterMetricFamily(name, text, labels=_labels(label, model))
    for key, value in (values if isinstance(values, Mapping) else {"": values}).items():
        family.add_metric(_label_values(key if label else None, model), value)
    return family


def _histogram(
    name: str, text: str, readings: HistogramReading | Mapping[str, HistogramReading], label: str = "", *, model: str | None = None
) -> Metric:
    """One series, or one a value of ``label``; ``model`` adds vLLM's ``model_name``."""
    family = HistogramMetricFamily(name, text, labels=_labels(label, model))
    for key, reading in (readings if isinstance(readings, Mapping) else {"": readings}).items():
        family.add_metric(_label_values(key if label else None, model), buckets=_cumulative(reading), sum_value=reading.total)
    return family


def _labels(label: str, model: str | None) -> list[str]:
    return [name for name in ("" if model is None else "model_name", label) if name]


def _label_values(key: str | None, model: str | None) -> list[str]:
    return [value for value in (model, key) if value is not None]


def _cumulative(reading: HistogramReading) -> list[tuple[str, float]]:
    below = 0
    buckets = []
    for bound, count in zip((*(f"{bound:g}" for bound in reading.bounds), "+Inf"), reading.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets
