"""A canary gets the share that it was given, at every moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.ids import AdapterId
from engine.versions.split import Split


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.29, 1 / 3, 0.5, 0.9, 1.0])
def test_the_share_is_exact_over_any_number_of_requests(share: float) -> None:
    """After each of a thousand requests the canary had as many as its share of them, rounded down."""
    split, taken = Split(canary=AdapterId("c"), share=share), 0
    for number in range(1, 1001):
        taken += split.takes()
        assert taken == number * round(share * 10_000) // 10_000, number


def test_threads_share_one_count() -> None:
    """Eight threads that ask at once leave the total exact."""
    split = Split(canary=AdapterId("c"), share=0.3)
    with ThreadPoolExecutor(8) as threads:
        taken = sum(threads.map(lambda _: sum(split.takes() for _ in range(1000)), range(8)))
    assert taken == 2400
