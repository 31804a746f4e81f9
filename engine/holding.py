"""One tenant's side of weights that several tenants registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.ids import TenantId, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a tenant may know of weights that others have too: its own names, record, wishes and requests."""

    tenant: TenantId
    aliases: tuple[str, ...]
    source: str
    registered_unix: float
    base_proof: Literal["recorded", "declared"]
    warnings: tuple[str, ...] = ()
    leases: int = 0
    waiting: int = 0
    requests: int = 0
    requests_per_min: float = 0.0
    cold_starts: int = 0
    hits: int = 0
    ttft_p95_s: float | None = None
    last_used_unix: float | None = None
    pin_tier: Tier | None = None
    pin_until: float | None = None
    pin_reason: str = ""
