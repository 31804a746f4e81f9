"""Monotonic time, injected so that a test can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never go back."""

    def now_s(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...


class MonotonicClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """Seconds of ``time.perf_counter``."""
        return time.perf_counter()
