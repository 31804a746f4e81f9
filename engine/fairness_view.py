"""How evenly tenants are served, and who stands in whose way."""

from __future__ import annotations

from dataclasses import dataclass

from engine.ids import TenantId

OTHERS = TenantId("others")
"""All tenants but the one that looks, where it may not know who they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWork:
    """What one tenant was served since the start."""

    tenant: TenantId
    weight: float
    served: float
    """Work ÷ weight while it had requests waiting; the unit is a prompt token."""
    backlogged_s: float
    """How long it had requests waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """One tenant over the window. None is not known."""

    tenant: TenantId
    weight: float = 1.0
    served_per_s: float | None = None
    """Work ÷ weight a second of the time that it had requests waiting."""
    backlogged_s: float = 0.0
    """How long it had requests waiting."""
    is_counted: bool = False
    """Whether it had requests waiting for so long that the index counts it."""
    requests: int = 0
    """Finished, and with a slowdown."""
    slowdown: float | None = None
    """Mean over its requests of their latency ÷ that without waits."""
    slowdown_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacementRow:
    """What requests of ``by`` cost ``of`` over the window; the two may be one tenant."""

    by: TenantId
    of: TenantId
    evictions: int = 0
    """Adapters of ``of`` that left the device for the pages that a load or a sequence of ``by`` needed."""
    preemptions: int = 0
    """Sequences of ``of`` that gave their pages to one of ``by``."""
    stalled_ms: float = 0.0
    """How long requests of ``of`` waited, added up, for an adapter to come back and for their pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessSnapshot:
    """The last ``window_s`` seconds."""

    window_s: float = 60.0
    jain: float | None = None
    """(Σx)² ÷ (n · Σx²) over ``served_per_s`` of the n tenants counted: 1 is even, 1/n is all for one. None when nobody counts."""
    tenants: tuple[ShareRow, ...] = ()
    displaced: tuple[DisplacementRow, ...] = ()
    """Pairs in which anything happened, the most stalled first."""


NO_FAIRNESS = FairnessSnapshot()
