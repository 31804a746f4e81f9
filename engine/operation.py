"""Long work that outlasts a restart, and the rows that are its progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from engine.ids import TenantId

OperationState = Literal["reading", "queued", "running", "done", "cancelled", "failed"]
"""``reading``: its rows are being stored. ``done``: no row waits; some may be rejected. ``failed``: it could not go on, and says why."""
UNFINISHED: tuple[OperationState, ...] = ("queued", "running")
ItemState = Literal["waiting", "done", "rejected"]
Outcome = Literal["", "new", "unchanged", "updated", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """One operation. ``done`` counts rows that came to an end well, ``failed`` those that were rejected."""

    id: str
    kind: str
    state: OperationState
    tenant: TenantId | None
    """Whose it is; None is whoever may act for all tenants."""
    options: dict[str, Any]
    total: int
    created_unix: float
    created_by: str
    done: int = 0
    failed: int = 0
    started_unix: float | None = None
    ended_unix: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """One row. ``number`` counts from 0 in the order they came."""

    number: int
    state: ItemState
    data: dict[str, Any]
    outcome: Outcome = ""
    result: dict[str, Any] = field(default_factory=dict)
    code: str | None = None
    message: str = ""
    ended_unix: float | None = None
