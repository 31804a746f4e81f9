"""Which of two versions a request goes to: an exact share, spread evenly."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ids import AdapterId

SHARE_PARTS = 10_000
"""Shares are counted in hundredths of a percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A canary's share of an alias's requests. Of any first n requests, ``floor(n * share)`` go to it. Safe from any thread."""

    canary: AdapterId
    share: float
    _count: Iterator[int] = field(default_factory=itertools.count, compare=False)

    def takes(self) -> bool:
        """Whether the next request is the canary's; counts it."""
        number = next(self._count)  # atomic in CPython
        parts = round(self.share * SHARE_PARTS)
        return (number + 1) * parts // SHARE_PARTS > number * parts // SHARE_PARTS
