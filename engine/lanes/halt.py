"""A wish to stop that reaches whatever runs now."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Halted(Exception):
    """What was under way was asked to end."""


class Halt:
    """Asked once, from any thread; what blocks registers how to end it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []

    def ask(self) -> None:
        """End what runs; nothing new begins."""
        with self._lock:
            self._asked.set()
            ends = list(self._ends)
        for end in ends:
            end()

    @property
    def is_asked(self) -> bool:
        """Whether somebody wants the end."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raises Halted once it was asked."""
        if self.is_asked:
            raise Halted

    def pause(self, seconds: float) -> None:
        """Wait; raises Halted as soon as it is asked."""
        if self._asked.wait(seconds):
            raise Halted

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Inside the block ``end`` is called when somebody asks; raises Halted at its end if somebody did."""
        with self._lock:
            self._ends.append(end)
        try:
            if self.is_asked:
                end()
            yield
        finally:
            with self._lock:
                self._ends.remove(end)
            self.check()
