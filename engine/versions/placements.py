"""Pins and the warm set, kept over a restart: stored when they change, and brought back once the engine serves. Any thread."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.caller import SYSTEM
from engine.control import ControlCall
from engine.desired import Pin
from engine.errors import LoradeckError
from engine.events import WarmSetReturned
from engine.registry import audit, placements
from engine.versions.facts import version_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlmodel import Session

    from engine.caller import Caller
    from engine.control import Control, ControlOutcome
    from engine.desired import Placement
    from engine.ids import AdapterId, Tier
    from engine.loop import EngineLoop
    from engine.model_host import ModelHost

KEEP_EVERY_S = 30.0
LOAD_TIMEOUT_S = 60.0
MOST_WARM = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A command that was carried out and is not stored yet."""

    call: ControlCall
    caller: Caller
    before: Pin | None
    after: Pin | None
    outcome: ControlOutcome
    undo_of: int | None


class Placements:
    """What operators want to be where. ``now_unix`` is the wall clock."""

    def __init__(self, host: ModelHost, loop: EngineLoop, control: Control, *, now_unix: Callable[[], float]) -> None:
        self._host = host
        self._loop = loop
        self._control = control
        self._now_unix = now_unix
        self._stored: list[Placement] = host.catalog.store.read(placements.every)
        self._kept: list[tuple[AdapterId, Tier]] = [(one.content, one.warm_tier) for one in self._stored if one.warm_tier is not None]
        self._storing = ThreadPoolExecutor(1, thread_name_prefix="placements")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm set", daemon=True)

    def start(self) -> None:
        """Bring back what was wanted, then remember what is warm, now and then."""
        self._thread.start()

    def stop(self) -> None:
        """Remember what is warm, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._storing.shutdown()

    def run(self, call: ControlCall, *, caller: Caller, undo_of: int | None = None) -> Future[ControlOutcome]:
        """Carry a command out; its answer comes once what it means for a restart, and its line in the audit log, are stored.

        Where they cannot be, a pin is put back as it was and the answer is RegistryUnavailable.
        """
        pins: list[Pin | None] = []

        def begin() -> Future[ControlOutcome]:
            entry = self._host.residency.entries.get(call.adapter)
            pins.append(None if entry is None else entry.pin)
            begun = self._control.run(call)
            pins.append(None if entry is None else entry.pin)
            return begun

        answer: Future[ControlOutcome] = Future()

        def done(inner: Future[ControlOutcome]) -> None:
            error = inner.exception()
            if error is not None:
                answer.set_exception(error)
            elif call.preview:
                answer.set_result(inner.result())
            else:
                before, after = pins
                told = _Done(call=call, caller=caller, before=before, after=after, outcome=inner.result(), undo_of=undo_of)
                self._storing.submit(self._store, told, answer)

        self._loop.forward(begin).add_done_callback(done)
        return answer

    def _store(self, done: _Done, answer: Future[ControlOutcome]) -> None:
        call, outcome = done.call, done.outcome
        record = self._host.catalog.versions.get(call.adapter)

        def work(session: Session) -> None:
            if done.before != done.after:
                placements.set_pin(session, call.adapter, done.after)
            if record is not None:
                facts = _facts(call, done.before), _facts(call, done.after) | {"tier": outcome.adapter.tier}
                audit.append(
                    session,
                    done.caller,
                    f"version.{call.verb}",
                    version_subject(record),
                    before=facts[0],
                    after=facts[1],
                    why=call.reason,
                    undo_of=done.undo_of,
                )

        try:
            self._host.catalog.store.write(work)
        except LoradeckError as error:
            if call.verb in {"pin", "unpin"}:
                self._host.call(lambda: self._put_back(call.adapter, done.before))
            answer.set_exception(error)
        else:
            answer.set_result(outcome)

    def _put_back(self, adapter: AdapterId, pin: Pin | None) -> None:
        entry = self._host.residency.entries.get(adapter)
        if entry is not None:
            self._host.residency.set_pin(entry, pin)

    def follow(self, pins: Mapping[AdapterId, Pin], *, caller: Caller) -> None:
        """Carry out pins that are stored already; what has no room stays stored, for a start that has, and is told. Blocks."""
        back = 0
        for adapter, pin in pins.items():
            call = ControlCall(verb="pin", adapter=adapter, tier=pin.tier, until_unix=pin.until_unix, reason=pin.reason, by=pin.by)
            with contextlib.suppress(LoradeckError, concurrent.futures.TimeoutError):
                self.run(call, caller=caller).result(timeout=LOAD_TIMEOUT_S)
                back += 1
        if pins:
            self._tell(back, len(pins) - back)

    # The warm set

    def _run(self) -> None:
        self._bring_back()
        while not self._stopping.wait(KEEP_EVERY_S):
            self.keep()
        self.keep()

    def keep(self) -> None:
        """Store what is on the device and in host memory, most recently used first, when that has changed."""
        warm = self._host.call(self._warm_now)
        if warm != self._kept:
            self._kept = warm
            self._host.catalog.store.later(lambda session: placements.set_warm(session, warm))

    def _warm_now(self) -> list[tuple[AdapterId, Tier]]:
        residency = self._host.residency
        near = [entry for key, entry in residency.entries.items() if not entry.retired and (entry.on_device or key in residency.host)]
        near.sort(key=lambda entry: (not entry.on_device, -entry.last_used_s))
        return [(entry.record.id, "device" if entry.on_device else "host") for entry in near[:MOST_WARM]]

    def _bring_back(self) -> None:
        """Pins first, then the rest of the warm set in its order, one at a time; nobody leaves for it, and what fails is told."""
        back, failed = 0, 0
        for one in self._stored:
            if self._stopping.is_set():
                return
            tier = one.warm_tier if one.pin is None else one.pin.tier
            if tier not in {"device", "host"} or one.content not in self._host.catalog.versions:
                continue
            if self._return(one, tier):
                back += 1
            else:
                failed += 1
        if back or failed:
            self._tell(back, failed)

    def _tell(self, back: int, failed: int) -> None:
        self._host.publisher.record_event(WarmSetReturned(at_unix=self._now_unix(), by="policy", back=back, failed=failed))

    def _return(self, one: Placement, tier: Tier) -> bool:
        pin, calls = one.pin, []
        if pin is not None and (pin.until_unix is None or pin.until_unix > self._now_unix()):
            calls.append(
                ControlCall(verb="pin", adapter=one.content, tier=pin.tier, until_unix=pin.until_unix, reason=pin.reason, by=pin.by)
            )
        elif one.warm_tier is None:
            return True  # the pin has run out meanwhile
        else:
            tier = one.warm_tier if self._host.call(lambda: self._has_room(one.content)) else "host"
        calls.append(ControlCall(verb="warm", adapter=one.content, tier=tier, by=SYSTEM.name))  # a pin alone does not wait for the load
        try:
            for call in calls:
                self._loop.forward(partial(self._control.run, call)).result(timeout=LOAD_TIMEOUT_S)
        except (LoradeckError, concurrent.futures.TimeoutError):
            return False
        return True

    def _has_room(self, adapter: AdapterId) -> bool:
        entry = self._host.residency.entries.get(adapter)
        return entry is not None and (entry.on_device or entry.record.num_pages <= self._host.free_pages)


def pin_of(facts: dict[str, Any]) -> Pin | None:
    """The pin that a line of the audit log tells of."""
    found = facts.get("pin")
    return None if found is None else Pin(**{name: found[name] for name in ("tier", "until_unix", "reason", "by")})


def _facts(call: ControlCall, pin: Pin | None) -> dict[str, Any]:
    return {"adapter": call.adapter, "pin": None if pin is None else asdict(pin)}
