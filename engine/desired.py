"""Where operators want weights to be, and when, apart from where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.ids import AdapterId, TenantId, Tier

Trigger = Literal["time", "sign_in", "first_request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """An operator's wish that an adapter stay on a tier; it outlasts a restart."""

    tier: Tier
    until_unix: float | None
    reason: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What is wanted of one version's weights. ``warm_tier`` is where the warm set had them; the lowest priority comes back first."""

    content: AdapterId
    pin: Pin | None = None
    warm_tier: Tier | None = None
    warm_priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An alias that is warmed at a time of day, when somebody of its tenant signs in, or at the tenant's first request of the day."""

    key: int
    tenant: TenantId
    alias: str
    trigger: Trigger
    tier: Tier
    minute: int | None
    """Of the day; with the trigger ``time`` only."""
    days: tuple[int, ...]
    """0 is Monday."""
    zone: str
    enabled: bool
    ran_unix: float | None
    created_unix: float
    created_by: str
