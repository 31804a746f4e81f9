"""One call's work in the engine: a request a prompt, their chunks merged, cancelled when nobody listens any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from engine.api.limit_headers import limit_headers
from engine.api.refusals import ClientGoneError
from engine.errors import EngineFault, LoradeckError, NotReady
from engine.ids import RequestId
from engine.request import Request, RequestRecord, SamplingParams, TokenChunk

if TYPE_CHECKING:
    from starlette.types import Receive

    from engine.caller import Caller
    from engine.engine import Engine
    from engine.stream import TokenStream

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one HTTP call asks of the engine. Choice ``p * n + i`` is the i-th of prompt p."""

    id: str
    model: str
    prompts: tuple[tuple[int, ...], ...]
    sampling: SamplingParams
    caller: Caller
    echo_logprobs: bool = False
    priority: int = 0
    """Among the caller's tenant's requests."""

    def requests(self) -> list[Request]:
        """One engine request a prompt."""
        many = len(self.prompts) > 1
        return [
            Request(
                id=RequestId(f"{self.id}-{number}" if many else self.id),
                model=self.model,
                prompt_ids=ids,
                sampling=self.sampling,
                tenant=self.caller.home,
                key=self.caller.key,
                reach="all" if self.caller.tenant is None else "own",
                echo_logprobs=self.echo_logprobs,
                priority=self.priority,
            )
            for number, ids in enumerate(self.prompts)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """What a call cost, in tokens."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    def as_json(self) -> dict[str, Any]:
        """OpenAI's ``usage``."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Generation:
    """A call under way. Submitting refuses with LoradeckError; whoever makes one calls ``cancel`` in the end."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self.call = call
        self._engine = engine
        self._num_tokens = 0
        self._streams: list[TokenStream] = engine.submit_together(call.requests())

    @property
    def model(self) -> str:
        """The name that answers."""
        return self._streams[0].target.name

    @property
    def fingerprint(self) -> str | None:
        """The version that answers; None is the base."""
        return self._streams[0].target.adapter

    @property
    def versions(self) -> tuple[str, ...]:
        """Those that answer, each once; more than one only where several prompts met a canary."""
        return tuple(dict.fromkeys(stream.target.adapter for stream in self._streams if stream.target.adapter is not None))

    @property
    def num_choices(self) -> int:
        """Choices of all prompts."""
        return len(self._streams) * self.call.sampling.n

    @property
    def records(self) -> list[RequestRecord]:
        """Of the requests that have ended."""
        return [stream.record for stream in self._streams if stream.record is not None]

    @property
    def headers(self) -> dict[str, str]:
        """What is left of the caller's limits."""
        return limit_headers(self._engine.gate.headroom(self.call.caller.home, self.call.caller.key))

    def cancel(self) -> None:
        """Stop what still runs; harmless when nothing does."""
        for stream in self._streams:
            stream.cancel()

    async def chunks(self) -> AsyncGenerator[TokenChunk, None]:
        """Every choice's chunks as they come, numbered over all prompts. Raises what ended the call early."""
        merged = _numbered(self._streams[0], 0) if len(self._streams) == 1 else _merge(self._streams, self.call.sampling.n)
        async with aclosing(merged):
            async for chunk in merged:
                _check_ending(chunk)
                self._num_tokens += len(chunk.token_ids)
                yield chunk

    def usage(self) -> TokenUsage:
        """True counts: the engine's own where a request has ended, else what came so far."""
        records = self.records
        complete = len(records) == len(self._streams)
        return TokenUsage(
            prompt_tokens=sum(map(len, self.call.prompts)),
            cached_tokens=sum(record.cached_tokens for record in records),
            completion_tokens=sum(record.completion_tokens for record in records) if complete else self._num_tokens,
        )


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``; ClientGoneError, and ``work`` cancelled, when the client closes first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_ending(chunk: TokenChunk) -> None:
    """A choice that did not come to its own end is an error to the caller, not an answer."""
    if chunk.finish_reason == "error":
        raise EngineFault("The request ended with an error inside the engine.")
    if chunk.finish_reason == "cancelled":
        raise NotReady("The request was cancelled by the server.", code="cancelled")


async def _numbered(stream: TokenStream, first_index: int) -> AsyncGenerator[TokenChunk, None]:
    async for chunk in stream:
        yield replace(chunk, index=first_index + chunk.index) if first_index else chunk


async def _merge(streams: list[TokenStream], num_choices: int) -> AsyncGenerator[TokenChunk, None]:
    """Chunks of several streams in order of arrival; the first error ends them all."""
    arrived: asyncio.Queue[TokenChunk | LoradeckError | None] = asyncio.Queue()
    pumps = [asyncio.ensure_future(_pump(stream, number * num_choices, arrived)) for number, stream in enumerate(streams)]
    running = len(pumps)
    try:
        while running:
            item = await arrived.get()
            if isinstance(item, LoradeckError):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        for pump in pumps:
            pump.cancel()


async def _pump(stream: TokenStream, first_index: int, arrived: asyncio.Queue[TokenChunk | LoradeckError | None]) -> None:
    try:
        async for chunk in _numbered(stream, first_index):
            arrived.put_nowait(chunk)
    except LoradeckError as error:
        arrived.put_nowait(error)
    else:
        arrived.put_nowait(None)
