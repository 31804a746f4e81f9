"""Watches the engine thread from outside: when a step hangs, those who wait are told instead of waiting for ever."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine.errors import EngineFault

if TYPE_CHECKING:
    from engine.loop import EngineLoop
    from engine.model_host import ModelHost
    from engine.stream import TokenStream

CHECK_EVERY_S = 0.5


class Watchdog:
    """A small thread. It ends streams directly, since the thread that owns them is the one that hangs."""

    def __init__(self, host: ModelHost, loop: EngineLoop, *, stuck_after_s: float) -> None:
        self._host = host
        self._loop = loop
        self.stuck_after_s = stuck_after_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _run(self) -> None:
        told: set[TokenStream] = set()
        while not self._stop.wait(CHECK_EVERY_S):
            age_s = self._host.clock.now_s() - self._loop.last_progress_s
            if age_s <= self.stuck_after_s:
                told.clear()
                continue
            error = EngineFault(f"The engine has not finished a step for {age_s:.0f} s.", code="engine_stuck")
            for stream in set(self._host.requests.streams) - told:
                told.add(stream)
                self._host.abandon(stream, error)
