"""Lanes sent as one batch, or one after the other, on the same road as HTTP."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from engine import LoradeckError, Request, RequestId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.actions import Actions
    from console.feed import Feed
    from engine import AdapterId, RequestRecord, Residency, SamplingParams, StepRecord, TokenStream

LaneState = Literal["waiting", "streaming", "finished", "failed"]


@dataclass(slots=True, kw_only=True)
class LaneRun:
    """One lane's answer as it comes. Owned by the asyncio loop."""

    model: str
    prompt: str
    request: RequestId
    prompt_ids: tuple[int, ...] = ()
    adapter: AdapterId | None = None
    """The version that answers, where the name has a canary maybe that; None for the base, and before it is sent."""
    by_canary: bool = False
    tier_at_arrival: Residency | None = None
    """Of that version, as the engine found it once the request ended, until then as we saw it; None for the base."""
    state: LaneState = "waiting"
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    sent_s: float = 0.0
    first_s: float | None = None
    last_s: float | None = None
    finish: str = ""
    error: str = ""
    record: RequestRecord | None = None

    @property
    def ttft_s(self) -> float | None:
        """The engine's time to the first token once the request ended, until then ours."""
        if self.record is not None and self.record.ttft_s is not None:
            return self.record.ttft_s
        return None if self.first_s is None else self.first_s - self.sent_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first, per second since it."""
        if self.first_s is None or self.last_s is None or self.last_s <= self.first_s:
            return None
        return (len(self.token_ids) - 1) / (self.last_s - self.first_s)


class Batch:
    """One run over some lanes. ``together`` or one at a time; stoppable."""

    def __init__(self, actions: Actions, feed: Feed, sampling: SamplingParams) -> None:
        self._actions = actions
        self._feed = feed
        self.sampling = sampling
        self.lanes: list[LaneRun] = []
        self.steps: list[StepRecord] = []
        """Forward passes that had one of the lanes in it."""
        self.began_unix = time.time()
        self._began_s = time.perf_counter()
        self._ended_s: float | None = None
        self._streams: list[TokenStream] = []
        self._stopped = False
        self._seen_step = feed.snapshot.step - 1

    async def together(self, asked: Sequence[tuple[str, str]]) -> None:
        """Submit every (model, prompt) before any is read, then read all."""
        await self._prepare(asked)
        ready = [(lane, self._submit(lane)) for lane in self.lanes]
        await asyncio.gather(*(self._read(lane, stream) for lane, stream in ready if stream is not None))
        self._end()

    async def one_at_a_time(self, asked: Sequence[tuple[str, str]]) -> None:
        """The same requests, each alone."""
        await self._prepare(asked)
        for lane in self.lanes:
            if self._stopped:
                break
            stream = self._submit(lane)
            if stream is not None:
                await self._read(lane, stream)
        self._end()

    def stop(self) -> None:
        """Cancel what runs; finished lanes keep their answers."""
        self._stopped = True
        for stream in self._streams:
            stream.cancel()

    @property
    def is_running(self) -> bool:
        """Whether a lane may still get tokens."""
        return self._ended_s is None

    @property
    def num_tokens(self) -> int:
        """Tokens of all lanes so far."""
        return sum(len(lane.token_ids) for lane in self.lanes)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all lanes over the time from the first submission to now, or to the end."""
        elapsed_s = (self._ended_s or time.perf_counter()) - self._began_s
        return self.num_tokens / elapsed_s if self.num_tokens and elapsed_s > 0 else None

    def collect_steps(self) -> None:
        """Take the new forward passes that had one of the lanes in it."""
        ours = {lane.request for lane in self.lanes}
        fresh = self._feed.steps(self._seen_step)
        self.steps = [record for record in self.steps if record.step <= self._seen_step]
        self.steps += [record for record in fresh if any(row.request in ours for row in record.rows)]
        if len(fresh) > 1:
            self._seen_step = fresh[-1].step - 1

    async def _prepare(self, asked: Sequence[tuple[str, str]]) -> None:
        for model, prompt in asked:
            self.lanes.append(LaneRun(model=model, prompt=prompt, request=RequestId(f"play-{secrets.token_hex(6)}")))
        await asyncio.gather(*(self._render(lane) for lane in self.lanes))
        self._began_s = time.perf_counter()

    async def _render(self, lane: LaneRun) -> None:
        try:
            lane.prompt_ids = await self._actions.prompt_ids(lane.prompt)
        except LoradeckError as error:
            lane.state, lane.error = "failed", error.message

    def _submit(self, lane: LaneRun) -> TokenStream | None:
        if lane.state == "failed":
            return None
        lane.sent_s = time.perf_counter()
        try:
            stream = self._actions.submit(Request(id=lane.request, model=lane.model, prompt_ids=lane.prompt_ids, sampling=self.sampling))
        except LoradeckError as error:
            lane.state, lane.error = "failed", error.message
            return None
        lane.adapter, lane.by_canary = stream.target.adapter, stream.target.stable is not None
        row = None if lane.adapter is None else self._feed.adapter(lane.adapter)
        lane.tier_at_arrival = row.tier if row else None
        self._streams.append(stream)
        return stream

    async def _read(self, lane: LaneRun, stream: TokenStream) -> None:
        try:
            async for chunk in stream:
                lane.last_s = time.perf_counter()
                if chunk.token_ids and lane.first_s is None:
                    lane.first_s, lane.state = lane.last_s, "streaming"
                lane.token_ids += chunk.token_ids
                lane.text += chunk.text
                lane.finish = chunk.finish_reason or lane.finish
        except LoradeckError as error:
            lane.state, lane.error = "failed", error.message
            return
        finally:
            stream.cancel()
        lane.record = stream.record
        if lane.record is not None:
            lane.by_canary = stream.target.stable is not None
            lane.adapter, lane.tier_at_arrival = lane.record.adapter, lane.record.tier_at_arrival
        lane.state = "finished"

    def _end(self) -> None:
        self._ended_s = time.perf_counter()
        self.collect_steps()


def agreement(together: Batch, alone: Batch) -> tuple[int, int, list[int]]:
    """(lanes that agree, lanes compared, numbers of those that differ) between a batch and the same lanes alone."""
    differ, compared = [], 0
    for number, (one, other) in enumerate(zip(together.lanes, alone.lanes, strict=False), 1):
        if (
            one.state == other.state == "finished"
            and "cancelled" not in {one.finish, other.finish}
            and (one.adapter, one.prompt) == (other.adapter, other.prompt)
        ):
            compared += 1
            if one.token_ids != other.token_ids:
                differ.append(number)
    return compared - len(differ), compared, differ
