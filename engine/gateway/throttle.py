"""Slows down whoever guesses passwords. Any thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from engine.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_TRIES = 5
LONGEST_S = 60.0
NAMES_KEPT = 1000


class Throttle:
    """After five failures for a name each further try waits twice as long as the one before, up to a minute."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, name: str) -> None:
        """Count a try as failed before it is looked at, so that many at once are limited like one after another.

        Raises Overloaded, and counts nothing, while ``name`` has to wait.
        """
        with self._lock:
            count, last_s = self._failures.get(name, (0, 0.0))
            now_s = self._now_s()
            wait_s = 0.0 if count < FREE_TRIES else min(LONGEST_S, 2.0 ** (count - FREE_TRIES)) - (now_s - last_s)
            if wait_s > 0:
                message = "Too many failed attempts to sign in; try again later."
                raise Overloaded(message, code="too_many_attempts", retry_after_s=wait_s)
            self._failures[name] = (count + 1, now_s)
            self._failures.move_to_end(name)
            while len(self._failures) > NAMES_KEPT:
                self._failures.popitem(last=False)

    def succeeded(self, name: str) -> None:
        """It was the right person: nothing of before counts."""
        with self._lock:
            self._failures.pop(name, None)
