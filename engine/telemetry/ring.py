"""A bounded list that numbers what is put in and says what it lost."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Ring(Generic[T]):
    """The newest ``capacity`` items, numbered from 1. Any thread may append and read."""

    def __init__(self, capacity: int) -> None:
        self._items: deque[T] = deque(maxlen=capacity)
        self._newest = 0
        self._lock = threading.Lock()

    @property
    def newest(self) -> int:
        """Number of the last item; 0 before the first."""
        return self._newest

    def append(self, item: T) -> int:
        """Put an item in, dropping the oldest when full; returns its number."""
        with self._lock:
            self._items.append(item)
            self._newest += 1
            return self._newest

    def after(self, number: int, *, limit: int) -> tuple[tuple[tuple[int, T], ...], int]:
        """Items numbered above ``number``, oldest first, at most ``limit``; and how many of them were lost."""
        number = max(0, number)
        with self._lock:
            first = self._newest - len(self._items) + 1
            start = max(number + 1, first)
            items = tuple(islice(self._items, start - first, start - first + limit))
        return tuple(enumerate(items, start)), max(0, first - number - 1)

    def copy(self) -> Ring[T]:
        """As it is now, with the same numbers."""
        found: Ring[T] = Ring(self._items.maxlen or 0)
        with self._lock:
            found._items.extend(self._items)
            found._newest = self._newest
        return found

    def all(self) -> tuple[T, ...]:
        """A copy, oldest first."""
        with self._lock:
            return tuple(self._items)
