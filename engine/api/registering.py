"""Registration reads, hashes and probes: it runs in threads of its own, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import anyio

T = TypeVar("T")

AT_ONCE = 2


@cache
def _limiter() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(AT_ONCE)


async def register_in_thread(work: Callable[[], T]) -> T:
    """The result of a blocking registration or withdrawal."""
    return await anyio.to_thread.run_sync(work, limiter=_limiter())
