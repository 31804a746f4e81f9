"""The tokens of one request, on their way from the engine thread to whoever asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.request import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.errors import LoradeckError
    from engine.gateway.gate import Ticket
    from engine.ids import AdapterId
    from engine.request import Request, TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a model name means now. ``adapter`` None is the base itself."""

    name: str
    adapter: AdapterId | None = None
    alias: str | None = None
    stable: AdapterId | None = None
    """Of a request that a canary got: the version that answers where the canary cannot."""

    @property
    def without_canary(self) -> Target:
        """The same name, served by the stable version."""
        return replace(self, adapter=self.stable, stable=None)


class TokenStream:
    """An async iterator of chunks; ends after every choice has a finish reason, or raises what ended the request.

    Made on an asyncio loop and read on it. ``record`` is set when iteration ends.
    """

    def __init__(self, request: Request, target: Target, *, cancel: Callable[[TokenStream], None], ticket: Ticket | None = None) -> None:
        self.request = request
        self.target = target
        self.ticket = ticket
        """Its place in its tenant's limits; None counts nowhere."""
        self.record: RequestRecord | None = None
        self.loop = asyncio.get_running_loop()
        self._cancel = cancel
        self._queue: asyncio.Queue[TokenChunk | LoradeckError | RequestRecord] = asyncio.Queue()
        self._ended = False

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> TokenChunk:
        if self._ended:
            raise StopAsyncIteration
        item = await self._queue.get()
        if isinstance(item, Exception):
            self._ended = True
            raise item
        if isinstance(item, RequestRecord):
            self._ended = True
            self.record = item
            raise StopAsyncIteration
        return item

    def cancel(self) -> None:
        """Stop the work; safe from any thread, and again."""
        self._cancel(self)

    def deliver(self, items: Iterable[TokenChunk | LoradeckError | RequestRecord]) -> None:
        """Hand items over; on the stream's loop only."""
        for item in items:
            self._queue.put_nowait(item)


class Outbox:
    """Collects what a step has for each stream and posts it with one call a loop. Owned by the engine thread."""

    def __init__(self) -> None:
        self._pending: dict[asyncio.AbstractEventLoop, dict[TokenStream, list[TokenChunk | LoradeckError | RequestRecord]]] = {}

    def put(self, stream: TokenStream, item: TokenChunk | LoradeckError | RequestRecord) -> None:
        """Keep an item until ``post``."""
        self._pending.setdefault(stream.loop, {}).setdefault(stream, []).append(item)

    def post(self) -> None:
        """Send everything; a loop that has closed loses its items, as its readers are gone."""
        pending, self._pending = self._pending, {}
        for loop, streams in pending.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, streams)


def _deliver(streams: dict[TokenStream, list[TokenChunk | LoradeckError | RequestRecord]]) -> None:
    for stream, items in streams.items():
        stream.deliver(items)
