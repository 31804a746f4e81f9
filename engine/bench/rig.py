"""The bench's rig: a base, engines with a data folder of their own, adapters, and traffic through the real door."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.assemble import base_folder
from engine.bench.adapters import write_mix
from engine.bench.timing import Contender, Outcome, Traffic, say
from engine.engine import Engine
from engine.ids import RequestId
from engine.models.config import read_spec
from engine.request import Request, SamplingParams
from engine.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Literal

    from engine.bench.adapters import Mix, Source
    from engine.bench.options import Options
    from engine.models.spec import ModelSpec

LOAD_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """What every mode measures with."""

    options: Options
    base: Path
    """Hugging Face folder that engines and peers load."""
    spec: ModelSpec

    @property
    def folder(self) -> Path:
        """Where the bench keeps adapters and engines' data."""
        return self.options.data / "bench"

    def traffic(self, repetition: int) -> Traffic:
        """The same for the same repetition, whoever asks."""
        options = self.options
        return Traffic(
            seed=repetition,
            rows=options.rows,
            prompt_tokens=options.prompt_tokens,
            new_tokens=options.new_tokens,
            vocab_size=self.spec.vocab_size,
        )

    def sources(self, mix: Mix, count: int | None = None) -> tuple[Source, ...]:
        """Adapters of a mix, one a row or ``count``, written at the first run."""
        return write_mix(self.folder / "sources", self.spec, mix, count or self.options.rows)

    def settings(self, name: str) -> Settings:
        """Of the engine that keeps its data under ``name``."""
        rows = max(64, self.options.rows)
        return Settings(
            base=str(self.base),
            device="cpu",
            data=self.folder / "engines" / name,
            memory=self.options.memory,
            threads=self.options.threads,
            max_sequences=rows,
            max_step_adapters=rows,
            sample_adapters=0,
            source_allow=(str(self.folder / "sources"),),
        )

    @contextlib.contextmanager
    def engine(self, name: str, adapters: Sequence[Source] = ()) -> Iterator[Engine]:
        """An engine with these adapters registered and on the device; whatever else ``name`` has registered stays so."""
        engine = Engine(self.settings(name))
        engine.start()
        try:
            register(engine, adapters)
            bring(engine, adapters)
            yield engine
        finally:
            engine.stop()


def open_rig(options: Options) -> Rig:
    """Make the demo base if that is asked for and absent, and set torch's threads. Raises BaseRefused."""
    settings = Settings(base=options.base, data=options.data)
    if options.threads:
        torch.set_num_threads(options.threads)
    base = base_folder(settings, lambda text, _share: None if _share else say(text))
    return Rig(options=options, base=base, spec=read_spec(base))


def register(engine: Engine, adapters: Sequence[Source], *, prove: Literal["now", "first_load"] = "now") -> None:
    """Register what is not registered yet, by the door that everyone uses."""
    known = {card.id for card in engine.models()}
    for adapter in adapters:
        if adapter.alias not in known:
            engine.register(str(adapter.folder), alias=adapter.alias, replace=True, prove=prove)


def bring(engine: Engine, adapters: Sequence[Source]) -> None:
    """Have adapters on the device before anything is timed."""
    for adapter in adapters:
        engine.control("warm", adapter.alias, tier="device").result(LOAD_TIMEOUT_S)


def served(name: str, engine: Engine, models: Sequence[str]) -> Contender:
    """Our engine as a contender: row i asks ``models[i]``, all at once."""
    return Contender(name=name, run=lambda traffic: run_rows([engine] * traffic.rows, models, traffic.prompts(), traffic.new_tokens))


def run_rows(engines: Sequence[Engine], models: Sequence[str], prompts: Sequence[tuple[int, ...]], new_tokens: int) -> Outcome:
    """Submit row i to ``engines[i]`` for ``models[i]`` and wait for all; greedy, end tokens not obeyed."""

    async def answer() -> Outcome:
        started_s = time.perf_counter()
        rows = await asyncio.gather(
            *(stream_tokens(engine, model, prompt, new_tokens) for engine, model, prompt in zip(engines, models, prompts, strict=True))
        )
        return Outcome(seconds=time.perf_counter() - started_s, tokens=tuple(rows))

    return asyncio.run(answer())


async def stream_tokens(engine: Engine, model: str, prompt: tuple[int, ...], new_tokens: int) -> tuple[int, ...]:
    """The new ids of one request."""
    tokens: list[int] = []
    async for chunk in engine.submit(greedy_request(model, prompt, new_tokens)):
        tokens += chunk.token_ids
    return tuple(tokens)


def greedy_request(model: str, prompt: tuple[int, ...], new_tokens: int) -> Request:
    """``new_tokens`` ids whatever they are."""
    sampling = SamplingParams(max_tokens=new_tokens, temperature=0.0, ignore_eos=True)
    return Request(id=RequestId(f"bench-{uuid.uuid4().hex}"), model=model, prompt_ids=prompt, sampling=sampling)
