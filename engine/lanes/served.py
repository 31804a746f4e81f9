"""The four lanes that the engine itself serves: one request, its phases from what the engine records anyway."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.ids import RequestId
from engine.lanes.results import LanePhase
from engine.request import Request, SamplingParams

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.ids import AdapterId
    from engine.lanes.halt import Halt
    from engine.lanes.results import ColdWarmOptions, PhaseKind
    from engine.model_host import ModelHost
    from engine.request import RequestRecord
    from engine.snapshot import LoadRecord
    from engine.stream import TokenStream

LEAST_S = 1e-5
"""Shorter gaps between two phases are clock noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneAnswer:
    """What one run gave, in whatever way."""

    ttft_s: float
    phases: tuple[LanePhase, ...]
    token_ids: tuple[int, ...]
    process_bytes: int | None = None
    fault: str = ""


def greedy_request(options: ColdWarmOptions, version: AdapterId) -> Request:
    """The request of every lane: greedy, with a prefill of its own, for the one version whatever becomes of the name."""
    return Request(
        id=RequestId(f"lane-{secrets.token_hex(6)}"),
        model=version,
        prompt_ids=options.prompt_ids,
        sampling=SamplingParams(max_tokens=options.new_tokens, temperature=0.0),
        prefix_cache="bypass",
        reach="all",  # whoever may compare may do so with any adapter
    )


def ask(engine: Engine, host: ModelHost, request: Request, halt: Halt) -> LaneAnswer:
    """Send it and read it to its end, on a loop of the calling thread. Raises LoradeckError, Halted."""
    sent_s, first_s, token_ids, stream = asyncio.run(_read(engine, request, halt))
    record = stream.record
    assert record is not None, "a stream that ended without an error has its record"
    load = host.call(lambda: None if record.adapter is None else host.observer.last_loads.get(record.adapter))
    if load is not None and load.asked_s < sent_s:
        load = None
    return LaneAnswer(
        ttft_s=first_s - sent_s,
        phases=phases_of(record, load, sent_s=sent_s, first_s=first_s),
        token_ids=token_ids,
        fault=_fault_of(record),
    )


async def _read(engine: Engine, request: Request, halt: Halt) -> tuple[float, float, tuple[int, ...], TokenStream]:
    sent_s = engine.clock.now_s()
    stream = engine.submit(request)
    first_s: float | None = None
    token_ids: list[int] = []
    with halt.ends(stream.cancel):
        async for chunk in stream:
            if first_s is None and chunk.token_ids:
                first_s = engine.clock.now_s()
            token_ids += chunk.token_ids
    return sent_s, first_s or engine.clock.now_s(), tuple(token_ids), stream


def phases_of(record: RequestRecord, load: LoadRecord | None, *, sent_s: float, first_s: float) -> tuple[LanePhase, ...]:
    """From the call to the first token without a gap: waits between what was recorded are ``queue``, the way back is ``deliver``."""
    known: list[tuple[str, PhaseKind, float, float]] = []
    for phase in () if load is None else load.phases:
        kind: PhaseKind = "start" if phase.name == "load queue" else "adapter"
        start_s = load.asked_s + phase.start_s - sent_s if load is not None else 0.0
        known.append((phase.name, kind, start_s, start_s + phase.duration_s))
    token_s = record.arrived_s + (record.ttft_s or 0.0) - sent_s
    known.append(("prefill", "prefill", token_s - (record.prefill_s or 0.0), token_s))
    phases: list[LanePhase] = []
    at_s = 0.0
    for name, kind, start_s, end_s in sorted(known, key=lambda item: item[2]):
        if start_s - at_s > LEAST_S:
            phases.append(LanePhase(name="queue", kind="start", start_s=at_s, duration_s=start_s - at_s))
        begin_s = max(start_s, at_s)
        if end_s > begin_s:
            phases.append(LanePhase(name=name, kind=kind, start_s=begin_s, duration_s=end_s - begin_s))
            at_s = end_s
    rest_s = first_s - sent_s - at_s
    return (*phases, LanePhase(name="deliver", kind="start", start_s=at_s, duration_s=rest_s)) if rest_s > LEAST_S else tuple(phases)


def _fault_of(record: RequestRecord) -> str:
    """Why an answer is no proof; empty when it is."""
    if record.cached_tokens:
        return f"{record.cached_tokens} prompt tokens came from the prefix cache"
    return "" if record.completion_tokens else "it gave no token"
