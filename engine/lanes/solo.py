"""A model that answers one prompt, without an engine around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.memory.arena import Arena
from engine.plan import PlannedRow, StepPlan
from engine.runner.runner import Runner
from engine.sequence import Sequence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.adapters.table import AdapterTable
    from engine.ids import AdapterId
    from engine.memory.layout import PageLayout
    from engine.models.decoder import DecoderModel
    from engine.request import Request


def greedy_tokens(
    model: DecoderModel, request: Request, *, layout: PageLayout, table: AdapterTable, eos_ids: Collection[int]
) -> Iterator[int]:
    """The request's tokens as they are computed, up to an end token or its limit. ``table`` is never read: no row has an adapter."""
    prompt, limit = list(request.prompt_ids), request.sampling.max_tokens
    num_pages = layout.pages_for(len(prompt) + limit)
    arena = Arena(layout, num_pages=num_pages, dtype=model.dtype, device=model.device)
    runner = Runner(model, arena, table, slot_of=_no_slot)
    sequence = Sequence(
        key=1, request=request, index=0, adapter=None, token_ids=prompt, num_prompt=len(prompt), arrived_s=0.0, pages=list(range(num_pages))
    )
    for step in range(limit):
        start = sequence.num_computed
        row = PlannedRow(
            sequence=sequence, phase="decode" if step else "prefill", start=start, num_tokens=sequence.num_tokens - start, samples=True
        )
        sampled = runner.run(StepPlan(step=step, rows=(row,))).sampled[0]
        assert sampled is not None, "the row samples"
        sequence.num_computed = sequence.num_tokens
        sequence.token_ids.append(sampled.token_id)
        yield sampled.token_id
        if sampled.token_id in eos_ids:
            return


def _no_slot(adapter: AdapterId) -> int:
    raise AssertionError(f"no adapter is asked for, least of all {adapter}")
