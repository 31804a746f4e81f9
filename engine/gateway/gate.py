"""Lets a call in when its tenant's and its key's limits allow, and settles what it really took. Any thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from engine.allowance import UNLIMITED, Headroom, Use, narrowest
from engine.errors import Overloaded
from engine.gateway.meter import Demand, Meter, Now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.allowance import Allowance
    from engine.clock import Clock
    from engine.gateway.window import Entry
    from engine.ids import TenantId
    from engine.request import Request, RequestRecord


class Gate:
    """Counts tokens as prompt and reserved output when a call is let in, and as prompt and output when it has ended.

    By the minute the window slides: whatever 60 s one looks at, the calls let in during them are at most as many as allowed, and so
    are their tokens. A call counts once, however many prompts it has. All limits are looked at under one lock before any is counted,
    so a refused call costs nothing, and no two calls get the same last place.
    """

    def __init__(self, clock: Clock, *, unix: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._unix = unix
        self._lock = threading.Lock()
        self._tenants: dict[str, Meter] = {}
        self._keys: dict[str, Meter] = {}

    def set_allowances(self, tenants: Mapping[TenantId, Allowance], keys: Mapping[str, Allowance]) -> None:
        """Replace every limit, now; what was counted stays counted."""
        with self._lock:
            for meters, allowances, kind in ((self._tenants, tenants, "tenant"), (self._keys, keys, "key")):
                for name in {*meters, *allowances}:
                    _meter(meters, kind, name).allowance = allowances.get(name, UNLIMITED)

    def restore_month(self, tenants: Mapping[str, int], keys: Mapping[str, int]) -> None:
        """Tokens that were used this month before this process began."""
        now = self._now()
        with self._lock:
            for meters, used, kind in ((self._tenants, tenants, "tenant"), (self._keys, keys, "key")):
                for name, tokens in used.items():
                    _meter(meters, kind, name).month.restore(tokens, now.unix)

    def admit(self, requests: Sequence[Request]) -> list[Ticket]:
        """Let all the requests of one call in, or none: a ticket each. Raises Overloaded or InvalidRequest, with nothing counted."""
        first = requests[0]
        shares = [reserve(request) for request in requests]
        demand = Demand(prompts=len(requests), tokens=sum(shares), most_output=max(request.sampling.max_tokens for request in requests))
        with self._lock:
            now = self._now()
            meters = self._meters(first.tenant, first.key)
            for meter in meters:
                refusal = meter.refusal(demand, now)
                if isinstance(refusal, Overloaded):
                    refusal.headroom = narrowest([meter.headroom(now) for meter in meters])
                if refusal is not None:
                    raise refusal
            held = tuple((meter, meter.take(demand, now)) for meter in meters)
        return [Ticket(self, held, requests=int(not number), tokens=share) for number, share in enumerate(shares)]

    def headroom(self, tenant: TenantId, key: str | None) -> Headroom:
        """What is left by the minute: of each limit the narrower of tenant and key."""
        with self._lock:
            now = self._now()
            return narrowest([meter.headroom(now) for meter in self._meters(tenant, key)])

    def most_output(self, tenant: TenantId, key: str | None, *, prompt_tokens: int, choices: int) -> int | None:
        """Output tokens of a choice that the limits could ever allow, for a caller who does not say how many; None is no limit."""
        allowances = [meter.allowance for meter in self._meters(tenant, key)]
        most = [each.max_tokens for each in allowances if each.max_tokens is not None]
        most += [(each.tokens_per_minute - prompt_tokens) // choices for each in allowances if each.tokens_per_minute is not None]
        return max(1, min(most)) if most else None

    def num_waiting(self, tenant: TenantId) -> int:
        """Requests of a tenant that were let in and have not been in a step yet."""
        meter = self._tenants.get(tenant)
        return 0 if meter is None else meter.waiting

    def used_by(self, tenant: TenantId) -> Use:
        """What counts against a tenant's limits now."""
        with self._lock:
            meter = self._tenants.get(tenant)
            return Use() if meter is None else meter.used(self._now())

    def _meters(self, tenant: TenantId, key: str | None) -> tuple[Meter, ...]:
        mine = _meter(self._tenants, "tenant", tenant)
        return (mine,) if key is None else (mine, _meter(self._keys, "key", key))

    def _now(self) -> Now:
        return Now(s=self._clock.now_s(), unix=self._unix())

    def begin(self, ticket: Ticket) -> None:
        """It no longer waits. For tickets."""
        with self._lock:
            if ticket.waits:
                ticket.waits = False
                for meter, _ in ticket.held:
                    meter.waiting -= 1

    def end(self, ticket: Ticket, *, requests: int, tokens: int) -> None:
        """Count it for what it was; the second time nothing happens. For tickets."""
        self.begin(ticket)
        now = self._now()
        with self._lock:
            held, ticket.held = ticket.held, ()
            for meter, entry in held:
                meter.settle(entry, requests=requests - ticket.requests, tokens=tokens - ticket.tokens)
                meter.use(reserved=ticket.tokens, used=tokens, now=now)


class Ticket:
    """One request that was let in: ``begin`` with its first step, then ``settle`` or ``void`` once. Any thread."""

    def __init__(self, gate: Gate, held: tuple[tuple[Meter, Entry], ...], *, requests: int, tokens: int) -> None:
        self._gate = gate
        self.held = held
        """Owned by the gate, as is ``waits``."""
        self.waits = True
        self.requests = requests
        """1 for the first request of a call."""
        self.tokens = tokens
        """Reserved."""

    def begin(self) -> None:
        """It was part of a step, and waits no longer."""
        if self.waits:
            self._gate.begin(self)

    def settle(self, record: RequestRecord) -> None:
        """It has ended: one that never came into a step used no tokens."""
        used = 0 if self.waits else record.prompt_tokens + record.completion_tokens
        self._gate.end(self, requests=self.requests, tokens=used)

    def void(self) -> None:
        """It was refused after all: as if it had never been let in."""
        self._gate.end(self, requests=0, tokens=0)


def reserve(request: Request) -> int:
    """Tokens that a request may take: its prompt once, and the longest output of each choice."""
    return len(request.prompt_ids) + request.sampling.n * request.sampling.max_tokens


def _meter(meters: dict[str, Meter], kind: str, name: str) -> Meter:
    meter = meters.get(name)
    if meter is None:
        meter = meters.setdefault(name, Meter(f"{kind} {name}"))
    return meter
