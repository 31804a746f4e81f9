"""What was admitted within the last minute: an exact sliding window."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SPAN_S = 60.0


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One call. Its tokens are what it reserved until it ends, then what it used; they count from when it was admitted."""

    at_s: float
    requests: int
    tokens: int
    is_inside: bool = True


class Window:
    """Keeps each call until it is 60 s old, so that no minute, wherever it begins, holds more than was allowed. Not thread-safe."""

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0
        self._entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Count a call; entries come in the order of their time."""
        self._entries.append(entry)
        self.requests += entry.requests
        self.tokens += entry.tokens

    def change(self, entry: Entry, *, requests: int, tokens: int) -> None:
        """Count a call for what it was; one that has left the window changes nothing."""
        if entry.is_inside:
            self.requests += requests - entry.requests
            self.tokens += tokens - entry.tokens
        entry.requests, entry.tokens = requests, tokens

    def pass_time(self, now_s: float) -> None:
        """Let go of what is 60 s old."""
        while self._entries and self._entries[0].at_s + SPAN_S <= now_s:
            entry = self._entries.popleft()
            entry.is_inside = False
            self.requests -= entry.requests
            self.tokens -= entry.tokens

    def wait_s(self, now_s: float, *, excess: int, part: Callable[[Entry], int]) -> float:
        """Seconds until entries worth ``excess`` of a ``part`` have left; 0 when there is no excess."""
        for entry in self._entries:
            if excess <= 0:
                break
            excess -= part(entry)
            wait_s = entry.at_s + SPAN_S - now_s
            if excess <= 0:
                return wait_s
        return 0.0 if excess <= 0 else SPAN_S

    def empty_in_s(self, now_s: float, *, part: Callable[[Entry], int]) -> float:
        """Seconds until none of a ``part`` is left."""
        newest = next((entry for entry in reversed(self._entries) if part(entry)), None)
        return 0.0 if newest is None else newest.at_s + SPAN_S - now_s
