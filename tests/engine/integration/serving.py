"""A real engine on TINY, and how tests talk to it."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar
from unittest.mock import patch

import torch
from torch import nn

from engine import assemble
from engine.adapters.entry import AdapterEntry
from engine.budget import DeviceBudget, divide
from engine.control import ControlOutcome, Verb
from engine.engine import STUCK_AFTER_S, Engine
from engine.errors import LoradeckError
from engine.ids import DEFAULT_TENANT, RequestId, TenantId, Tier
from engine.model_host import ModelHost
from engine.registered import Registration
from engine.request import Request, RequestRecord, SamplingParams, TokenChunk
from engine.settings import Settings
from engine.snapshot import AdapterRow, EngineSnapshot
from engine.stream import TokenStream
from tests import oracle, tiny

T = TypeVar("T")
PROMPT = tuple(range(40, 75))
"""35 tokens: two full pages and a rest."""
WAIT_S = 20.0
"""Longest wait for something that must happen; generous, since the machine may be busy."""
NUM_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that one request gave."""

    ids: tuple[int, ...]
    text: str
    record: RequestRecord
    chunks: tuple[TokenChunk, ...]
    times_s: tuple[float, ...]
    """When each chunk was read."""

    def ids_of(self, index: int) -> tuple[int, ...]:
        """Tokens of one choice."""
        return tuple(token for chunk in self.chunks if chunk.index == index for token in chunk.token_ids)


@dataclass(slots=True, kw_only=True)
class Served:
    """A started engine. ``snapshots`` holds every one that was published."""

    engine: Engine
    base: Path
    data: Path
    snapshots: list[EngineSnapshot] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def host(self) -> ModelHost:
        """The engine's inside."""
        return self.engine._host

    def folder(self, name: str, recipe: tiny.AdapterRecipe | None = None) -> Path:
        """An adapter's folder in an allowed place."""
        return tiny.write_adapter(self.data / "sources" / name, recipe)

    async def register(self, source: str | Path, alias: str, **options: object) -> Registration:
        """Register a folder."""
        return await asyncio.to_thread(self.engine.register, str(source), alias=alias, **options)  # type: ignore[arg-type]

    async def add(self, name: str, recipe: tiny.AdapterRecipe | None = None, **options: object) -> Path:
        """Write an adapter and register it under its name; the folder, for the oracle."""
        folder = self.folder(name, recipe)
        await self.register(folder, name, **options)
        return folder

    async def unregister(self, alias: str) -> None:
        """Withdraw an alias."""
        await asyncio.to_thread(self.engine.unregister, alias)

    def submit(
        self,
        model: str | None,
        prompt: Sequence[int] = PROMPT,
        *,
        tenant: str = DEFAULT_TENANT,
        reach: Literal["own", "all"] = "all",
        echo: bool = False,
        request_id: str | None = None,
        key: str | None = None,
        **sampling: object,
    ) -> TokenStream:
        """Queue a request, greedy unless told otherwise; None is the base."""
        params: dict[str, object] = {"max_tokens": NUM_TOKENS, "temperature": 0.0, "ignore_eos": True} | sampling
        request = Request(
            id=RequestId(request_id or f"r{next(self._numbers)}"),
            model=model or self.engine.base_name,
            prompt_ids=tuple(prompt),
            sampling=SamplingParams(**params),  # type: ignore[arg-type]
            tenant=TenantId(tenant),
            reach=reach,
            key=key,
            echo_logprobs=echo,
        )
        return self.engine.submit(request)

    async def ask(self, model: str | None, prompt: Sequence[int] = PROMPT, **options: object) -> Answer:
        """Queue a request and read its answer whole."""
        return await read(self.submit(model, prompt, **options))  # type: ignore[arg-type]

    async def control(self, verb: Verb, ref: str, *, tier: Tier | None = None, preview: bool = False) -> ControlOutcome:
        """An operator's command, awaited."""
        future = self.engine.control(verb, ref, tier=tier, preview=preview)
        return await asyncio.wait_for(asyncio.wrap_future(future), WAIT_S)

    async def inside(self, look: Callable[[], T]) -> T:
        """Run something on the engine thread."""
        return await asyncio.to_thread(self.host.call, look)

    def entry(self, alias: str) -> AdapterEntry:
        """The live entry behind an alias."""
        named = self.host.catalog.owned(alias, None)
        assert named is not None
        return self.host.residency.entries[named.adapter]

    async def row(self, alias: str) -> AdapterRow:
        """The row behind an alias, made now."""
        return await self.inside(lambda: self.host.observer.row(self.entry(alias)))

    async def check(self) -> None:
        """Every pool's invariants, on the engine thread."""
        await self.inside(self.check_now)

    def check_now(self) -> None:
        """Engine thread only."""
        self.host.check()
        self.host.scheduler.check()
        self.host.residency.roster.check(self.host.residency.entries.values())


@contextmanager
def serve(base: Path, data: Path, *, pages: int | None = None, stuck_after_s: float = STUCK_AFTER_S, **options: object) -> Iterator[Served]:
    """A running engine; ``pages`` cuts the arena to so many. At its end every snapshot's parts must sum, and every pool agree."""
    settings: dict[str, object] = {"memory": "24MiB", "max_rank": 64, "threads": 1, "sample_adapters": 0, "device": "cpu"} | options
    engine = Engine(Settings(base=str(base), data=data, **settings), stuck_after_s=stuck_after_s)  # type: ignore[arg-type]

    def cut(*args: object, **more: object) -> DeviceBudget:
        budget = divide(*args, **more)  # type: ignore[arg-type]
        return dataclasses.replace(budget, num_pages=pages or budget.num_pages)

    with patch.object(assemble, "divide", cut):
        engine.start()
    served = Served(engine=engine, base=base, data=data)
    publish = engine.publisher.publish

    def record(snapshot: EngineSnapshot) -> None:
        served.snapshots.append(snapshot)
        publish(snapshot)

    engine.publisher.publish = record  # type: ignore[method-assign]
    try:
        yield served
        if engine.health().ok:
            served.host.call(served.check_now)
    finally:
        engine.stop()
    for snapshot in served.snapshots:
        assert sum(snapshot.memory.parts.values()) == snapshot.memory.total_bytes, snapshot.memory
        assert min(snapshot.memory.parts.values()) >= 0, snapshot.memory


async def read(stream: TokenStream) -> Answer:
    """A stream to its end; raises what ended it."""
    chunks, times_s = [], []
    async with asyncio.timeout(WAIT_S * 3):
        async for chunk in stream:
            chunks.append(chunk)
            times_s.append(time.perf_counter())
    assert stream.record is not None
    return Answer(
        ids=tuple(token for chunk in chunks for token in chunk.token_ids),
        text="".join(chunk.text for chunk in chunks),
        record=stream.record,
        chunks=tuple(chunks),
        times_s=tuple(times_s),
    )


def is_greedy(base: Path, adapter: Path | None, prompt: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether each token is the best one after those before it: as ``expected``, with one forward pass."""
    best = oracle.logits(_under(base, adapter), [*prompt, *ids]).argmax(dim=-1)
    return best[len(prompt) - 1 : -1].tolist() == list(ids)


async def first_chunk(stream: TokenStream) -> TokenChunk:
    """The next chunk of a stream."""
    return await asyncio.wait_for(anext(stream), WAIT_S)


async def outcome(stream: TokenStream) -> Answer | LoradeckError:
    """The answer, or the refusal that ended it; anything else is raised."""
    try:
        return await read(stream)
    except LoradeckError as error:
        return error


async def until(holds: Callable[[], bool], *, within_s: float = WAIT_S) -> float:
    """Wait for something to hold; the seconds it took. Fails when it does not in time."""
    started_s = time.perf_counter()
    while not holds():
        assert time.perf_counter() - started_s < within_s, f"not within {within_s} s"
        await asyncio.sleep(0.01)
    return time.perf_counter() - started_s


@cache
def _reference(base: Path) -> nn.Module:
    return oracle.base_model(base)


@cache
def expected(base: Path, adapter: Path | None, prompt: tuple[int, ...] = PROMPT, num_tokens: int = NUM_TOKENS) -> tuple[int, ...]:
    """What ``transformers`` says, under the adapter added to its weights; None is the base."""
    return tuple(oracle.greedy(_under(base, adapter), prompt, num_tokens))


def _under(base: Path, adapter: Path | None) -> nn.Module:
    model = copy.deepcopy(_reference(base))
    for name, delta in ({} if adapter is None else oracle.deltas(adapter)).items():
        model.get_submodule(name).weight.data += torch.from_numpy(delta)
    return model
