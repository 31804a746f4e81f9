"""Counters, histograms and rolling windows: one thread writes, any thread reads a copy."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Key = TypeVar("Key", bound="Hashable")

OTHER = "other"
"""The label value of everything past a counter's cap."""

BIN_GROWTH = 1.04
SMALLEST = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramReading:
    """A copy of a histogram: ``counts[i]`` values fell at or under ``bounds[i]``, the last count is those above all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """Values observed."""
        return sum(self.counts)


class Histogram:
    """Counts under fixed bounds, since start."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self._total += value

    def read(self) -> HistogramReading:
        """A copy that does not change."""
        return HistogramReading(bounds=self.bounds, counts=tuple(self._counts), total=self._total)


class LabelCounter:
    """Sums by label value, since start. Labels past the cap are added to ``other``, for good, so that no series ever falls."""

    def __init__(self, *, cap: int = 64) -> None:
        self._cap = cap
        self._sums: dict[str, float] = {}

    def add(self, label: str, amount: float = 1.0) -> None:
        """Add to one label's sum."""
        if label not in self._sums and len(self._sums) >= self._cap:
            label = OTHER
        self._sums[label] = self._sums.get(label, 0.0) + amount

    def read(self) -> dict[str, float]:
        """A copy: label → sum."""
        return self._sums.copy()


class LabelHistograms:
    """One histogram a label value, capped like ``LabelCounter``."""

    def __init__(self, bounds: tuple[float, ...], *, cap: int = 16) -> None:
        self._bounds = bounds
        self._cap = cap
        self._by_label: dict[str, Histogram] = {}

    def observe(self, label: str, value: float) -> None:
        """Count one value under a label."""
        if label not in self._by_label:
            label = label if len(self._by_label) < self._cap else OTHER
            self._by_label.setdefault(label, Histogram(self._bounds))
        self._by_label[label].observe(value)

    def read(self) -> dict[str, HistogramReading]:
        """A copy: label → reading."""
        return {label: histogram.read() for label, histogram in self._by_label.copy().items()}


@dataclass(slots=True, kw_only=True)
class _Slice:
    """What fell into one slice of the window. Owned by its ``RollingMeter``."""

    number: int
    count: int
    total: float
    bins: Counter[int]


class RollingMeter:
    """Count, sum and percentiles (within 2 %) of the last ``window_s`` seconds, in slices. Read and written by one thread.

    Percentiles come from log-spaced bins (DDSketch, Masson et al. 2019, section 2) whose sum over the window is kept as it moves.
    """

    def __init__(self, *, window_s: float = 60.0, slices: int = 12) -> None:
        self.window_s = window_s
        self._slice_s = window_s / slices
        self._num_slices = slices
        self._slices: deque[_Slice] = deque()
        self._bins: Counter[int] = Counter()
        self._count = 0
        self._total = 0.0

    def observe(self, value: float, *, now_s: float) -> None:
        """Count one value at a time that never goes back."""
        self._expire(now_s)
        number = int(now_s / self._slice_s)
        if not self._slices or self._slices[-1].number != number:
            self._slices.append(_Slice(number=number, count=0, total=0.0, bins=Counter()))
        newest = self._slices[-1]
        newest.count += 1
        newest.total += value
        self._count += 1
        self._total += value
        index = _bin_of(value)
        newest.bins[index] += 1
        self._bins[index] += 1

    def count(self, now_s: float) -> int:
        """Values in the window."""
        self._expire(now_s)
        return self._count

    def total(self, now_s: float) -> float:
        """Sum of the values in the window."""
        self._expire(now_s)
        return self._total if self._count else 0.0

    def mean(self, now_s: float) -> float | None:
        """Mean over the window; None without values."""
        self._expire(now_s)
        return self._total / self._count if self._count else None

    def percentile(self, share: float, *, now_s: float) -> float | None:
        """The value that ``share`` (0..1) of the values do not exceed (nearest rank); None without values."""
        self._expire(now_s)
        rank = max(1, math.ceil(share * self._count))
        seen = 0
        for index in sorted(self._bins):
            seen += self._bins[index]
            if seen >= rank:
                return _value_of(index)
        return None

    def _expire(self, now_s: float) -> None:
        oldest = int(now_s / self._slice_s) - self._num_slices
        while self._slices and self._slices[0].number <= oldest:
            gone = self._slices.popleft()
            self._count -= gone.count
            self._total -= gone.total
            self._bins -= gone.bins


class RollingSums(Generic[Key]):
    """Sums by key over the last ``window_s`` seconds, in slices; keys without any are forgotten. Read and written by one thread."""

    def __init__(self, *, window_s: float = 60.0, slices: int = 12) -> None:
        self._slice_s = window_s / slices
        self._num_slices = slices
        self._slices: deque[tuple[int, dict[Key, float]]] = deque()

    def add(self, key: Key, amount: float, *, now_s: float) -> None:
        """Add to one key's sum, at a time that never goes back."""
        number = int(now_s / self._slice_s)
        if not self._slices or self._slices[-1][0] != number:
            self._expire(number)
            self._slices.append((number, {}))
        newest = self._slices[-1][1]
        newest[key] = newest.get(key, 0.0) + amount

    def read(self, now_s: float) -> dict[Key, float]:
        """Key → sum."""
        self._expire(int(now_s / self._slice_s))
        sums: dict[Key, float] = {}
        for _, amounts in self._slices:
            for key, amount in amounts.items():
                sums[key] = sums.get(key, 0.0) + amount
        return sums

    def _expire(self, number: int) -> None:
        while self._slices and self._slices[0][0] <= number - self._num_slices:
            self._slices.popleft()


def _bin_of(value: float) -> int:
    return math.floor(math.log(max(value, SMALLEST)) / math.log(BIN_GROWTH))


def _value_of(index: int) -> float:
    middle = BIN_GROWTH ** (index + 0.5)
    return middle if middle > SMALLEST * BIN_GROWTH else 0.0
