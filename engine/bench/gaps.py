"""Steady streams beside which something happens, and the gaps between their tokens."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from engine.bench.rig import greedy_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from engine.bench.timing import Traffic
    from engine.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The time between two tokens of one stream. Seconds of ``time.perf_counter``."""

    since_s: float
    until_s: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.until_s - self.since_s

    def meets(self, window: tuple[float, float]) -> bool:
        """Whether they share a moment."""
        return self.since_s <= window[1] and self.until_s >= window[0]


class SteadyStreams:
    """Rows of the base that are asked again as soon as they end. Owned by the asyncio loop."""

    def __init__(self, engine: Engine, traffic: Traffic) -> None:
        self.gaps: list[Gap] = []
        """Of streams that have ended; all of them once ``running`` is left."""
        self.joins: list[tuple[float, float]] = []
        """From each question to its first token: what a gap shows then is the prompts of the rows that ask again."""
        self._num_tokens = 0
        self._alarms: list[tuple[int, asyncio.Event]] = []
        self._engine = engine
        self._traffic = traffic

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """They stream inside the block; on the way in, all have had a token."""
        prompts = self._traffic.prompts()
        started = [asyncio.Event() for _ in prompts]
        tasks = [asyncio.ensure_future(self._row(prompt, event)) for prompt, event in zip(prompts, started, strict=True)]
        try:
            await asyncio.gather(*(event.wait() for event in started))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def steps(self, count: int) -> None:
        """Wait until every row has had so many more tokens, on the mean."""
        alarm = asyncio.Event()
        self._alarms.append((self._num_tokens + count * self._traffic.rows, alarm))
        await alarm.wait()

    async def _row(self, prompt: tuple[int, ...], started: asyncio.Event) -> None:
        while True:
            asked_s = time.perf_counter()
            stream = self._engine.submit(greedy_request(self._engine.base_name, prompt, self._traffic.new_tokens))
            token_s: list[float] = []
            try:
                async for chunk in stream:
                    if chunk.token_ids:
                        token_s.append(time.perf_counter())
                        self._count()
                    started.set()
            finally:
                stream.cancel()
                self.joins.append((asked_s, token_s[0] if token_s else time.perf_counter()))
                self.gaps += [Gap(since_s=before, until_s=after) for before, after in pairwise(token_s)]

    def _count(self) -> None:
        """One more token; wake who waited for it."""
        self._num_tokens += 1
        for due, alarm in self._alarms:
            if due <= self._num_tokens:
                alarm.set()
        self._alarms = [waiting for waiting in self._alarms if waiting[0] > self._num_tokens]


def split(gaps: Iterable[Gap], windows: Sequence[tuple[float, float]]) -> tuple[list[Gap], list[Gap]]:
    """The gaps that meet a window, and those that meet none."""
    inside: list[Gap] = []
    outside: list[Gap] = []
    for gap in gaps:
        (inside if any(map(gap.meets, windows)) else outside).append(gap)
    return inside, outside


class StepsAround:
    """How long a quiet step is at a moment: rows grow, and so do steps."""

    def __init__(self, quiet: Iterable[Gap], *, near: int) -> None:
        """Of the ``near`` quiet gaps that lie nearest."""
        self._quiet = sorted(quiet, key=lambda gap: gap.since_s)
        self._since_s = [gap.since_s for gap in self._quiet]
        self._near = near

    def steps(self, gap: Gap) -> float | None:
        """A gap in steps of its time; None without quiet gaps."""
        at = bisect_left(self._since_s, gap.since_s)
        first = max(0, min(at - self._near // 2, len(self._quiet) - self._near))
        around = [each.seconds for each in self._quiet[first : first + self._near]]
        return gap.seconds / median(around) if around else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that ``share`` of them do not exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
