"""One forward pass: a plan in, sampled tokens out. Owned by the engine thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.adapters.probe import PROMPT_TOKENS, probe_prompts
from engine.batch import ForwardBatch
from engine.models.decode_pass import DecodePasses
from engine.plan import SampledToken, StepResult
from engine.runner.build import adapter_runs, build_batch, wants_prompt_logprobs
from engine.runner.sampler import sample, score_tokens
from kernels.lora_batch import LoraBatch, cut_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from engine.adapters.table import AdapterTable
    from engine.ids import AdapterId
    from engine.memory.arena import Arena
    from engine.models.decoder import DecoderModel
    from engine.plan import PlannedRow, StepPlan
    from engine.request import TokenLogprob
    from engine.runner.build import Run
    from engine.runner.graphs import DecodeGraphs


class Runner:
    """Runs plans on one model. ``slot_of`` gives the table slot of a leased adapter."""

    def __init__(self, model: DecoderModel, arena: Arena, table: AdapterTable, *, slot_of: Callable[[AdapterId], int]) -> None:
        self.model = model
        self.graphs: DecodeGraphs | None = None
        """Captured decode steps on CUDA; None elsewhere."""
        self._arena = arena
        self._table = table
        self._slot_of = slot_of
        self._device = model.device
        self._lora: LoraBatch | None = None
        self._passes = DecodePasses(model, arena)

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Compute a plan; pages and leases are already held."""
        started_s = time.perf_counter()
        runs = adapter_runs(plan, self._slot_of)
        batch = build_batch(plan, page_tokens=self._arena.layout.page_tokens, device=self._device, lora=self._lora_batch(runs))
        logits = self._forward(batch)
        sampling = [index for index, row in enumerate(plan.rows) if row.samples]
        tokens = sample(logits[: len(sampling)], [plan.rows[index].sequence for index in sampling])
        sampled: list[SampledToken | None] = [None] * len(plan.rows)
        for index, token in zip(sampling, tokens, strict=True):
            sampled[index] = token
        scored = _score_prompts(plan.rows, logits[len(sampling) :])
        return StepResult(sampled=tuple(sampled), prompt_logprobs=scored, run_s=time.perf_counter() - started_s)

    @torch.inference_mode()
    def probe(self, slot: int | None, *, pages: Sequence[int]) -> Tensor:
        """Last-position logits [NUM_PROMPTS, V] fp32 of the probe prompts under one adapter (None: the base), using ``pages``."""
        prompts = probe_prompts(self.model.spec.vocab_size)
        num_tokens = len(prompts) * PROMPT_TOKENS
        runs: tuple[Run, ...] = () if slot is None else ((0, num_tokens, slot),)
        page_tokens = self._arena.layout.page_tokens
        starts = [index * PROMPT_TOKENS for index in range(len(prompts) + 1)]
        slots = [page * page_tokens + at for page in pages for at in range(PROMPT_TOKENS)]

        def ints(values: object, dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=self._device)

        batch = ForwardBatch(
            token_ids=ints([token for prompt in prompts for token in prompt], torch.int64),
            positions=ints(list(range(PROMPT_TOKENS)) * len(prompts), torch.int64),
            kv_slots=ints(slots, torch.int64),
            num_decode=0,
            decode_pages=ints(np.zeros((0, 0)).tolist(), torch.int32).view(0, 0),
            decode_lengths=ints([], torch.int32),
            max_decode_length=0,
            prefill_pages=ints([[page] for page in pages], torch.int32),
            prefill_starts=ints(starts, torch.int32),
            prefill_lengths=ints([PROMPT_TOKENS] * len(prompts), torch.int32),
            prefill_bounds=tuple((first, first + PROMPT_TOKENS, PROMPT_TOKENS) for first in starts[:-1]),
            logit_rows=ints([first + PROMPT_TOKENS - 1 for first in starts[:-1]], torch.int64),
            lora=None if slot is None else self._new_lora(runs),
        )
        return self.model.forward(batch, self._arena).float().cpu()

    def _forward(self, batch: ForwardBatch) -> Tensor:
        if self.graphs is not None and self.graphs.can_replay(batch):
            return self.graphs.replay(batch)
        if self._passes.can_run(batch):
            return self._passes.run(batch)
        return self.model.forward(batch, self._arena)

    def _lora_batch(self, runs: tuple[Run, ...]) -> LoraBatch | None:
        """The prepared batch of these runs, kept while neither they nor the slot table change."""
        if not runs:
            return None
        if self._lora is None or not self._lora.serves(runs, self._table.version):
            self._lora = self._new_lora(runs)
        return self._lora

    def _new_lora(self, runs: tuple[Run, ...]) -> LoraBatch:
        return LoraBatch(
            arena=self._arena.flat, tables=self._table.tables, segments=cut_runs(runs, device=self._device), version=self._table.version
        )


def _score_prompts(rows: Sequence[PlannedRow], logits: Tensor) -> dict[int, tuple[TokenLogprob, ...]]:
    """Log-probabilities of the prompt token after each computed position, by row."""
    scored: dict[int, tuple[TokenLogprob, ...]] = {}
    first = 0
    for index, row in enumerate(rows):
        if wants_prompt_logprobs(row):
            sequence = row.sequence
            following = sequence.token_ids[row.start + 1 : min(row.start + row.num_tokens + 1, sequence.num_prompt)]
            top = sequence.request.sampling.logprobs or 0
            scored[index] = score_tokens(logits[first : first + len(following)], following, top=top)
            first += row.num_tokens
    return scored
