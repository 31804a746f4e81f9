"""What happened, numbered for each who is told: no tenant's numbers move by what is another's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine.events import EngineStateChanged, Event, EventPage
from engine.telemetry.ring import Ring

if TYPE_CHECKING:
    from engine.ids import TenantId

EVENTS_KEPT, EVENTS_OF_A_TENANT = 4096, 256
TOLD_TO_ALL = (EngineStateChanged,)


class EventLog:
    """One ring over everything, and one for each tenant over its own and what all are told. Any thread.

    A tenant's ring is its own in length too: else what it loses would tell how much others do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._everything: Ring[Event] = Ring(EVENTS_KEPT)
        self._told_to_all: Ring[Event] = Ring(EVENTS_OF_A_TENANT)
        """With what a tenant begins of which nothing happened yet."""
        self._of: dict[TenantId, Ring[Event]] = {}

    def append(self, event: Event) -> int:
        """Its number over everything."""
        owner = getattr(event, "tenant", None)
        with self._lock:
            if isinstance(event, TOLD_TO_ALL):
                for ring in (self._told_to_all, *self._of.values()):
                    ring.append(event)
            elif owner is not None:
                if owner not in self._of:
                    self._of[owner] = self._told_to_all.copy()
                self._of[owner].append(event)
            return self._everything.append(event)

    def newest(self, tenant: TenantId | None = None) -> int:
        """Number of the newest event; 0 before the first. None is everything."""
        return self._ring(tenant).newest

    def page(self, after: int, *, limit: int, tenant: TenantId | None = None) -> EventPage:
        """Events numbered above ``after``, oldest first."""
        ring = self._ring(tenant)
        events, lost = ring.after(after, limit=limit)
        return EventPage(events=events, lost=lost, newest=ring.newest)

    def forget(self, tenant: TenantId) -> None:
        """It is gone; whoever has its name after it is told nothing of before."""
        with self._lock:
            self._of.pop(tenant, None)

    def _ring(self, tenant: TenantId | None) -> Ring[Event]:
        return self._everything if tenant is None else self._of.get(tenant, self._told_to_all)
