"""Fifteen minutes of a number, one a second, and the lines drawn from it. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_S: Final = 900
BUCKET_S: Final = 15
NUM_BUCKETS: Final = KEPT_S // BUCKET_S
FLAT: Final = 0.5
"""A series whose least value is above this share of its greatest is drawn from its least, else from zero."""


class Ring:
    """The last ``KEPT_S`` samples; None is a gap. Owned by the sampler."""

    def __init__(self) -> None:
        self._values: deque[float | None] = deque(maxlen=KEPT_S)
        self._count = 0

    def append(self, value: float | None) -> None:
        """Add the newest sample."""
        self._values.append(value)
        self._count += 1

    def buckets(self) -> list[float | None]:
        """Means of ``BUCKET_S`` samples, oldest first, always ``NUM_BUCKETS`` long; they do not shift between buckets."""
        sums = [0.0] * NUM_BUCKETS
        numbers = [0] * NUM_BUCKETS
        newest = (self._count - 1) // BUCKET_S
        first = self._count - len(self._values)
        for index, value in enumerate(self._values, first):
            place = NUM_BUCKETS - 1 - (newest - index // BUCKET_S)
            if value is not None and place >= 0:
                sums[place] += value
                numbers[place] += 1
        return [total / number if number else None for total, number in zip(sums, numbers, strict=True)]


def runs(points: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Stretches without a gap, as (place, value)."""
    found: list[list[tuple[int, float]]] = []
    open_run: list[tuple[int, float]] = []
    for place, value in enumerate(points):
        if value is not None:
            open_run.append((place, value))
        elif open_run:
            found.append(open_run)
            open_run = []
    return [*found, open_run] if open_run else found


def spark_path(points: Sequence[float | None], width: int, height: int) -> str:
    """An SVG path with straight lines and real gaps, ending in a dot; empty when nothing is known."""
    known = [value for value in points if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    floor = low if low > FLAT * high else min(low, 0.0)
    span = (high - floor) or 1.0
    step = (width - 4) / (len(points) - 1)

    def spot(place: int, value: float) -> str:
        level = FLAT if floor == high and high else (value - floor) / span
        return f"{2 + place * step:.1f} {height - 2 - level * (height - 4):.1f}"

    lines = ["M" + "L".join(spot(place, value) for place, value in run) for run in runs(points)]
    place, value = runs(points)[-1][-1]
    x, y = spot(place, value).split()
    dot = f"M{float(x) - 1:.1f} {y}a1 1 0 1 0 2 0a1 1 0 1 0-2 0"
    return "".join(lines) + dot
