"""What is: one frozen value that the console, ``/api/snapshot`` and ``/metrics`` read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.fairness_view import NO_FAIRNESS, FairnessSnapshot
from engine.ids import AdapterId, RequestId, Residency, TenantId, Tier, WaitReason

EngineState = Literal["starting", "serving", "degraded", "draining", "down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    """Every byte of the device (on CPU: of a budget) once; ``total_bytes`` is the sum of ``parts``. ``host_*``, ``disk_*`` are beside."""

    total_bytes: int = 0
    base_bytes: int = 0
    adapters_pinned_bytes: int = 0
    adapters_leased_bytes: int = 0
    adapters_cached_bytes: int = 0
    kv_used_bytes: int = 0
    kv_prefix_bytes: int = 0
    kv_reserved_bytes: int = 0
    workspace_bytes: int = 0
    free_bytes: int = 0
    other_bytes: int = 0
    page_bytes: int = 0
    arena_pages: int = 0
    free_pages: int = 0
    kv_floor_pages: int = 0
    pinned_pages: int = 0
    host_used_bytes: int = 0
    host_budget_bytes: int = 0
    disk_used_bytes: int = 0
    adapters_pinned: int = 0
    adapters_leased: int = 0
    adapters_cached: int = 0
    kv_used_tokens: int = 0
    kv_prefix_tokens: int = 0

    @property
    def parts(self) -> dict[str, int]:
        """The ten parts in bar order; their sum is ``total_bytes``."""
        return {
            "base": self.base_bytes,
            "workspace": self.workspace_bytes,
            "adapters_pinned": self.adapters_pinned_bytes,
            "adapters_leased": self.adapters_leased_bytes,
            "adapters_cached": self.adapters_cached_bytes,
            "kv_used": self.kv_used_bytes,
            "kv_prefix": self.kv_prefix_bytes,
            "kv_reserved": self.kv_reserved_bytes,
            "free": self.free_bytes,
            "other": self.other_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPhase:
    """One timed part of a load: ``name`` is ``load queue``, ``download``, ``read``, ``verify``, ``allocate``, ``copy`` or ``first use``."""

    name: str
    start_s: float
    """Seconds after the load was asked for."""
    duration_s: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """One finished load to the device, by phase, with who waited and what it cost others."""

    adapter: AdapterId
    from_tier: Tier
    asked_s: float
    """Monotonic seconds."""
    phases: tuple[LoadPhase, ...]
    total_s: float
    evicted: tuple[AdapterId, ...] = ()
    waiters: tuple[RequestId, ...] = ()
    waited_max_s: float = 0.0
    others_delay_s: float = 0.0
    """Longest step while it copied, less the median step before: what others lost per step."""
    others_steps: int = 0
    outcome: Literal["ok", "failed", "cancelled"] = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRow:
    """One registered version, as operators see it."""

    id: AdapterId
    alias: str
    tenant: TenantId
    number: int = 0  # 1, 2, 3 … within its line
    aliases: tuple[str, ...] = ()
    tier: Residency = "disk"
    pinned: bool = False
    pin_tier: Tier | None = None
    pin_until: float | None = None
    """Unix seconds; None with ``pinned`` is no end."""
    pin_reason: str = ""
    leases: int = 0
    waiting: int = 0
    drain_eta_s: float | None = None
    bytes: int = 0  # as stored and as resident: whole pages
    pages: int = 0
    rank: int = 0  # the largest of its modules
    modules: tuple[str, ...] = ()
    num_matched: int = 0
    """Modules of the base that it changes."""
    lifecycle: Literal["validating", "ready", "rejected", "retired"] = "ready"
    base_proof: Literal["recorded", "declared"] = "declared"
    warnings: tuple[str, ...] = ()
    synthetic: bool = False
    source: str = ""
    registered_unix: float = 0.0
    last_used_unix: float | None = None
    requests: int = 0
    requests_per_min: float = 0.0
    cold_starts: int = 0
    hits: int = 0
    loads: int = 0
    ttft_p95_s: float | None = None
    probe: Literal["unproven", "ok", "mismatch"] = "unproven"
    probe_fingerprint: str = ""
    last_load: LoadRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """One sequence in the batch."""

    id: RequestId
    tenant: TenantId
    model: str
    adapter: AdapterId | None
    prompt_tokens: int
    output_tokens: int
    phase: Literal["prefill", "decode"]
    running_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One sequence that waits, and why."""

    id: RequestId
    tenant: TenantId
    model: str
    adapter: AdapterId | None
    reason: WaitReason
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsSnapshot:
    """What runs and what waits."""

    running: tuple[RunningRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One tenant over the window ``RatesSnapshot.window_s``. None is no traffic; p99 is None under 100 requests."""

    tenant: TenantId
    requests: int = 0
    requests_per_s: float = 0.0
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    cold_share: float | None = None
    waiting: int = 0
    running: int = 0
    wait_shares: tuple[tuple[str, float], ...] = ()
    """(reason, share of the time waited), largest first."""
    tokens_per_s: float = 0.0
    errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesSnapshot:
    """Measured over the last ``window_s`` seconds. None is no traffic in the window, never 0."""

    window_s: float = 60.0
    requests: int = 0
    requests_per_s: float = 0.0
    output_tokens_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p50_s: float | None = None
    itl_p95_s: float | None = None
    queue_mean_s: float | None = None
    adapter_load_mean_s: float | None = None
    prefill_mean_s: float | None = None
    decode_per_token_s: float | None = None
    hit_rate: float | None = None
    """Adapter requests that found their adapter on the device."""
    cold_starts_per_min: float = 0.0
    errors: int = 0
    step_p50_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsSnapshot:
    """Counters since start; they only rise."""

    requests: int = 0
    errors: int = 0
    cancelled: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    preemptions: int = 0
    adapter_hits: int = 0
    adapter_misses: int = 0
    loads: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSnapshot:
    """What serves, on what."""

    kind: Literal["cuda", "cpu"] = "cpu"
    name: str = ""
    base: str = ""
    """The base's public name: what ``model`` may be."""
    base_digest: str = ""
    architecture: str = ""
    num_parameters: int = 0
    dtype: str = ""
    context_tokens: int = 0
    page_tokens: int = 16
    threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """The whole, at one moment between two steps."""

    step: int = 0
    taken_s: float = 0.0
    """Monotonic seconds (``Clock``)."""
    taken_unix: float = 0.0
    started_unix: float = 0.0
    state: EngineState = "starting"
    state_since_unix: float = 0.0
    state_reason: str = ""
    memory: MemorySnapshot = MemorySnapshot()
    adapters: tuple[AdapterRow, ...] = ()
    requests: RequestsSnapshot = RequestsSnapshot()
    tenants: tuple[TenantRow, ...] = ()
    rates: RatesSnapshot = RatesSnapshot()
    totals: TotalsSnapshot = TotalsSnapshot()
    device: DeviceSnapshot = DeviceSnapshot()
    fairness: FairnessSnapshot = NO_FAIRNESS
    event: int = 0
    """Number of the newest event."""


EMPTY = EngineSnapshot()
