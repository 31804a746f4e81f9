"""What an operator may do to an adapter: warm, pin, unpin, evict, each with a preview of what it would cost. Engine thread."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from engine.bill import floor_rule, load_bill
from engine.desired import Pin
from engine.errors import AdapterNotFound, Conflict, InvalidRequest, LoradeckError
from engine.events import AdapterPinned, AdapterUnpinned
from engine.gateway.scope import narrow_row, told_to
from engine.leaving import leave
from engine.registry import placements

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.adapters.entry import AdapterEntry
    from engine.ids import AdapterId, TenantId, Tier
    from engine.model_host import ModelHost
    from engine.snapshot import AdapterRow

Verb = Literal["warm", "pin", "unpin", "evict"]
Line = tuple[str, int]
"""A line of a sum: label and pages, negative when they are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """An idle adapter that would leave the device."""

    id: AdapterId
    alias: str
    pages: int
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCall:
    """One operator command."""

    verb: Verb
    adapter: AdapterId
    tier: Tier | None = None
    until_unix: float | None = None
    reason: str = ""
    by: str
    preview: bool = False
    tenant: TenantId | None = None
    """Who asks, and what they are told of others' adapters; None is an operator of all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOutcome:
    """What a command did, or with ``preview`` would do."""

    verb: Verb
    adapter: AdapterRow
    applied: bool
    preview: bool
    message: str
    arithmetic: tuple[Line, ...] = ()
    victims: tuple[Victim, ...] = ()
    eta_s: float | None = None
    """From loads measured before; None when there were none."""
    waiting_leases: int = 0


class Control:
    """Carries commands out on the engine thread; what takes time answers later, through the future."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host

    def run(self, call: ControlCall) -> Future[ControlOutcome]:
        """Start a command. Refusals are LoradeckError on the future."""
        future: Future[ControlOutcome] = Future()
        verbs: dict[Verb, Callable[[AdapterEntry, ControlCall, Future[ControlOutcome]], None]] = {
            "warm": self._warm,
            "pin": self._pin,
            "unpin": self._unpin,
            "evict": self._evict,
        }
        try:
            entry = self._host.residency.entry(call.adapter)
            if entry.quarantined and call.verb in {"warm", "pin"}:
                message = "It is quarantined, since it does not answer as it did; register it again."
                raise Conflict(message, code="quarantined", param="ref", expected="probe ok", found=f"probe {entry.probe}")
            verbs[call.verb](entry, call, future)
        except LoradeckError as refusal:
            future.set_exception(refusal)
        return future

    def expire_pins(self) -> None:
        """End pins whose time has come."""
        for entry in list(self._host.residency.roster.pinned.values()):
            if entry.pin is not None and entry.pin.until_unix is not None and entry.pin.until_unix <= time.time():
                self._drop_pin(entry, by="policy", because="expired")
                self._host.catalog.store.later(partial(placements.set_pin, content=entry.record.id, pin=None))

    def _warm(self, entry: AdapterEntry, call: ControlCall, future: Future[ControlOutcome]) -> None:
        tier = _tier(call, allowed=("device", "host"))
        lines, victims = load_bill(self._host, entry, "Load", tenant=call.tenant) if tier == "device" else ((), ())
        eta_s = self._host.lifecycle.load_eta_s(entry, tier)
        if call.preview:
            future.set_result(self._outcome(call, entry, f"Would bring it to {tier}.", lines=lines, victims=victims, eta_s=eta_s))
            return

        def done(error: LoradeckError | None) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(self._outcome(call, entry, f"On {tier}.", lines=lines, victims=victims, eta_s=eta_s))

        entry.leave_to = None
        self._host.lifecycle.bring(entry, tier, done)

    def _pin(self, entry: AdapterEntry, call: ControlCall, future: Future[ControlOutcome]) -> None:
        tier = _tier(call, allowed=("device", "host"))
        if call.until_unix is not None and call.until_unix <= time.time():
            message = "The pin would end in the past."
            raise InvalidRequest(message, param="until", expected="a later time", found=call.until_unix)
        lines: tuple[Line, ...] = ()
        victims: tuple[Victim, ...] = ()
        if tier == "device":
            with told_to(call.tenant):
                rule = floor_rule(self._host, entry)
            bill, victims = load_bill(self._host, entry, "Pin", tenant=call.tenant)
            lines = (*bill, *rule) if call.tenant is None else bill
        eta_s = self._host.lifecycle.load_eta_s(entry, tier)
        if call.preview:
            future.set_result(self._outcome(call, entry, f"Would pin it to {tier}.", lines=lines, victims=victims, eta_s=eta_s))
            return
        pin = Pin(tier=tier, until_unix=call.until_unix, reason=call.reason, by=call.by)
        self._host.residency.set_pin(entry, pin)
        entry.leave_to = None
        event = AdapterPinned(
            at_unix=time.time(),
            by=call.by,
            adapter=call.adapter,
            alias=entry.alias,
            tenant=entry.record.tenant,
            tier=tier,
            until_unix=call.until_unix,
            reason=call.reason,
        )
        self._host.publisher.record_event(event)
        self._host.lifecycle.changed(entry)
        self._host.lifecycle.bring(entry, tier, lambda _error: None)
        future.set_result(self._outcome(call, entry, f"Pinned to {tier}.", lines=lines, victims=victims, eta_s=eta_s))

    def _unpin(self, entry: AdapterEntry, call: ControlCall, future: Future[ControlOutcome]) -> None:
        if call.preview or entry.pin is None:
            message = "Would end its pin." if entry.pin else "It is not pinned."
        else:
            self._drop_pin(entry, by=call.by, because="operator")
            message = "Unpinned."
        future.set_result(self._outcome(call, entry, message))

    def _evict(self, entry: AdapterEntry, call: ControlCall, future: Future[ControlOutcome]) -> None:
        tier = _tier(call, allowed=("host", "disk"))
        if entry.pin is not None:
            message = "It is pinned; end the pin first."
            raise Conflict(message, code="pinned", param="ref", expected="not pinned", found=f"pinned to {entry.pin.tier}")
        text = leave(self._host, entry, tier, preview=call.preview)
        outcome = self._outcome(call, entry, text)
        future.set_result(replace(outcome, waiting_leases=outcome.adapter.leases))

    def _drop_pin(self, entry: AdapterEntry, *, by: str, because: Literal["operator", "expired"]) -> None:
        self._host.residency.set_pin(entry, None)
        event = AdapterUnpinned(
            at_unix=time.time(), by=by, adapter=entry.record.id, alias=entry.alias, tenant=entry.record.tenant, because=because
        )
        self._host.publisher.record_event(event)
        self._host.lifecycle.changed(entry)

    def _outcome(
        self,
        call: ControlCall,
        entry: AdapterEntry,
        message: str,
        *,
        lines: tuple[Line, ...] = (),
        victims: tuple[Victim, ...] = (),
        eta_s: float | None = None,
    ) -> ControlOutcome:
        row = narrow_row(self._host.observer.row(entry), call.tenant)
        if row is None:
            message = f"No adapter {entry.record.id} is registered."
            raise AdapterNotFound(message, param="ref", found=entry.record.id)
        return ControlOutcome(
            verb=call.verb,
            adapter=row,
            applied=not call.preview,
            preview=call.preview,
            message=message,
            arithmetic=lines,
            victims=victims,
            eta_s=eta_s,
        )


def _tier(call: ControlCall, *, allowed: tuple[Tier, ...]) -> Tier:
    tier = call.tier or allowed[0]
    if tier not in allowed:
        message = f"{call.verb} goes to {' or '.join(allowed)}, not to {tier}."
        raise InvalidRequest(message, param="tier", expected=list(allowed), found=tier)
    return tier
