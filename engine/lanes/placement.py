"""Brings the adapter to where a lane starts, reads where it is, and puts it back in the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.caller import SYSTEM, Caller
from engine.errors import LoradeckError
from engine.lanes import page_cache
from engine.lanes.results import StartState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.adapters.entry import AdapterEntry
    from engine.adapters.origin import HttpOrigin
    from engine.desired import Pin
    from engine.engine import Engine
    from engine.ids import AdapterId, Residency, Tier
    from engine.lanes.halt import Halt
    from engine.lanes.results import LaneName, PageCache
    from engine.model_host import ModelHost

MOVER = replace(SYSTEM, name="cold-warm")
"""Who the events of these moves name."""
MOVE_S = 60.0
QUIET_S = 3.0
POLL_S = 0.02
EXPECTED: dict[LaneName, str] = {
    "pinned": "device, pinned",
    "host": "host",
    "disk": "disk",
    "remote": "remote",
    "merge": "files on disk",
    "replica": "no process",
}
"""What ``Placement.read`` says when the adapter is where a lane starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an adapter was, and its pin."""

    tier: Residency
    pin: Pin | None

    @property
    def words(self) -> str:
        """As in "device, pinned"."""
        return f"{self.tier}, pinned" if self.pin is not None and self.pin.tier == self.tier else self.tier


class Placement:
    """Moves one adapter by the operators' commands. Used by the comparison's thread alone."""

    def __init__(self, engine: Engine, host: ModelHost, adapter: AdapterId, halt: Halt) -> None:
        self._engine = engine
        self._host = host
        self._adapter = adapter
        self.halt = halt
        self._before = self.place()

    def place(self) -> Place:
        """Where it is now."""
        return self._host.call(lambda: self._place(self._host.residency.entry(self._adapter)))

    def bring_to(self, lane: LaneName, origin: HttpOrigin) -> StartState:
        """Move it to where the lane starts, wait for a quiet engine, and read where it really is."""
        if lane == "pinned":
            self._control("pin", "device")
            self._control("warm", "device")
        else:
            self._leave_for(lane, origin)
        self.wait_until_quiet()
        cache = page_cache.forget(self._image) if lane == "disk" and self._image.exists() else None
        return self.read(lane, cache)

    def read(self, lane: LaneName, cache: PageCache | None = None) -> StartState:
        """Where it is, by residency; for the two naive lanes whether what they read is on disk."""
        if lane in {"merge", "replica"}:
            found = EXPECTED[lane] if self._image.exists() else "no image on disk"
        else:
            found = self.place().words
            if lane in {"disk", "remote"} and self._image.exists() != (lane == "disk"):
                found += ", image on disk" if lane == "remote" else ", no image on disk"
        return StartState(expected=EXPECTED[lane], found=found, page_cache=cache)

    def restore(self) -> str:
        """Put it where it was, with the pin it had; in words. Raises LoradeckError when that is refused."""
        before = self._before
        self._wait_for(lambda entry: entry.load is None, within_s=MOVE_S)
        self._bring_back()
        self._control("unpin")
        target = {"loading": "device", "draining": "device"}.get(before.tier, before.tier)
        if target == "device":
            self._control("warm", "device")
        else:
            self._control("evict", "disk")
        if target == "host":
            self._control("warm", "host")
        if before.pin is not None and (before.pin.until_unix is None or before.pin.until_unix > time.time()):
            pin = before.pin
            self._control("pin", pin.tier, until_unix=pin.until_unix, reason=pin.reason, caller=replace(SYSTEM, name=pin.by))
        return self.place().words

    def wait_until_quiet(self) -> None:
        """Until nothing is computed or due to be re-checked, or ``QUIET_S`` when others keep the engine busy."""
        end_s = time.monotonic() + QUIET_S
        while time.monotonic() < end_s and not self._host.call(self._is_quiet):
            self.halt.pause(POLL_S)

    @property
    def _image(self) -> Path:
        return self._host.residency.disk.path(self._adapter)

    def _leave_for(self, lane: LaneName, origin: HttpOrigin) -> None:
        self._control("unpin")
        self._wait_for(lambda entry: entry.leases == 0 and entry.load is None, within_s=QUIET_S)
        self._control("evict", "disk")
        self._bring_back()
        if lane == "host":
            self._control("warm", "host")
        elif lane == "remote":
            self._host.residency.disk.send_away(self._adapter, origin)
            self._host.call(lambda: self._host.residency.mark_away(self._host.residency.entry(self._adapter), away=True))

    def _bring_back(self) -> None:
        self._host.residency.disk.bring_back(self._adapter)
        self._host.call(lambda: self._host.residency.mark_away(self._host.residency.entry(self._adapter), away=False))

    def _place(self, entry: AdapterEntry) -> Place:
        return Place(tier=self._host.residency.state(self._adapter), pin=entry.pin)

    def _is_quiet(self) -> bool:
        entries = self._host.residency.holders()
        return not self._host.scheduler.running and not any(entry.recheck and entry.on_device for entry in entries)

    def _wait_for(self, holds: Callable[[AdapterEntry], bool], *, within_s: float) -> None:
        end_s = time.monotonic() + within_s
        residency = self._host.residency
        while not self._host.call(lambda: holds(residency.entry(self._adapter))) and time.monotonic() < end_s:
            self.halt.pause(POLL_S)

    def _control(self, verb: str, tier: Tier | None = None, *, caller: Caller = MOVER, **options: object) -> None:
        future = self._engine.control(verb, self._adapter, tier=tier, caller=caller, **options)  # type: ignore[arg-type]
        try:
            future.result(timeout=MOVE_S)
        except TimeoutError:
            raise LoradeckError(f"{verb} took longer than {MOVE_S:.0f} s.", code="move_timed_out") from None
