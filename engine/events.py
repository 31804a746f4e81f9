"""What happened: one frozen dataclass an event, a sentence each. Numbered by the publisher; told to the ``tenant`` it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.ids import AdapterId, RequestId, TenantId, Tier
from engine.snapshot import LoadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at ``at_unix`` seconds."""

    at_unix: float
    by: str = "engine"
    """Who caused it: ``engine``, ``policy``, an operator's name or an API key's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStateChanged(Event):
    """The engine went from one state to another."""

    before: str
    after: str
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRegistered(Event):
    """A version was accepted and its alias points at it."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    replaced: AdapterId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRejected(Event):
    """A registration was refused; nothing else changed."""

    source: str
    alias: str
    code: str
    message: str
    tenant: TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasMoved(Event):
    """An operator changed where a name leads: to another version, back, or for a share of requests to a canary."""

    alias: str
    tenant: TenantId
    before: AdapterId | None
    after: AdapterId
    canary: AdapterId | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRan(Event):
    """A schedule warmed an alias; ``message`` says why not where it could not."""

    alias: str
    tenant: TenantId
    trigger: str
    tier: Tier
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSetReturned(Event):
    """After a start, pins and what was warm before are back, or could not come."""

    back: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterUnregistered(Event):
    """An alias was withdrawn; the last lease frees the weights."""

    adapter: AdapterId
    alias: str
    tenant: TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterLoaded(Event):
    """An adapter came to the device."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    load: LoadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterLoadFailed(Event):
    """A load ended without the adapter on the device."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterEvicted(Event):
    """An adapter left a tier to make room, or because it was told to."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    from_tier: Tier
    because: Literal["pages_needed", "host_budget", "operator", "retired", "quarantined"]
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterPinned(Event):
    """An operator pinned an adapter."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    tier: Tier
    until_unix: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterUnpinned(Event):
    """A pin ended."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    because: Literal["operator", "expired", "retired"] = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMismatch(Event):
    """An adapter on the device no longer answers as it did when it was registered; it is quarantined."""

    adapter: AdapterId
    alias: str
    tenant: TenantId
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreempted(Event):
    """A running request gave its pages back and will be recomputed."""

    request: RequestId
    tenant: TenantId
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Event):
    """A request ended with an error."""

    request: RequestId
    tenant: TenantId
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChanged(Event):
    """Long work began, went on or ended; while it runs, one a second at most."""

    operation: str
    kind: str
    state: str
    total: int
    done: int
    failed: int
    tenant: TenantId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events after the number asked for, oldest first, and how many were lost to the ring's bound."""

    events: tuple[tuple[int, Event], ...] = field(default=())
    lost: int = 0
    newest: int = 0
