"""CUDA graphs for decode steps: one captured pass a batch size, replayed with new contents in the same tensors."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from engine.batch import ForwardBatch
from kernels.lora_batch import LoraBatch, LoraSegments

if TYPE_CHECKING:
    from torch import Tensor

    from engine.memory.arena import Arena
    from engine.models.decoder import DecoderModel

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One graph and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    batch: ForwardBatch
    logits: Tensor
    capture_s: float


class DecodeGraphs:
    """Captures on first use of a size, with and without adapters. Owned by the engine thread.

    Padding rows decode token 0 into ``scratch_page``; every segment slot is launched, dead ones exit, so a replay never skips an adapter.
    """

    def __init__(self, model: DecoderModel, arena: Arena, *, max_sequences: int, scratch_page: int) -> None:
        self._model = model
        self._arena = arena
        self._sizes = [size for size in SIZES if size < max_sequences] + [max_sequences]
        self._scratch_page = scratch_page
        self._width = -(-model.cos.shape[0] // arena.layout.page_tokens)
        self._captured: dict[tuple[int, bool], Captured] = {}

    @property
    def capture_s(self) -> dict[tuple[int, bool], float]:
        """Seconds each capture took, by (size, with adapters)."""
        return {key: captured.capture_s for key, captured in self._captured.items()}

    def can_replay(self, batch: ForwardBatch) -> bool:
        """Whether a step is decode only and small enough."""
        return 0 < batch.num_decode == len(batch.token_ids) <= self._sizes[-1]

    def replay(self, batch: ForwardBatch) -> Tensor:
        """Logits [R, V] of a decode step; valid until the next replay."""
        size = next(size for size in self._sizes if size >= batch.num_decode)
        key = (size, batch.lora is not None)
        if key not in self._captured:
            self._captured[key] = self._capture(size, batch.lora)
        captured = self._captured[key]
        self._load(captured.batch, batch)
        captured.graph.replay()
        return captured.logits[: batch.num_decode]

    def _capture(self, size: int, lora: LoraBatch | None) -> Captured:
        started_s = time.perf_counter()
        batch = self._blank(size, lora)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._model.forward(batch, self._arena)  # compiles every kernel before the capture
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._model.forward(batch, self._arena)
        return Captured(graph=graph, batch=batch, logits=logits, capture_s=time.perf_counter() - started_s)

    def _blank(self, size: int, lora: LoraBatch | None) -> ForwardBatch:
        device = self._model.device

        def ints(*shape: int, fill: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.full(shape, fill, dtype=dtype, device=device)

        scratch_slot = self._scratch_page * self._arena.layout.page_tokens
        segments = None
        if lora is not None:
            start, rows, slot = (ints(size, dtype=torch.int32) for _ in range(3))
            segments = replace(lora, segments=LoraSegments(start=start, rows=rows, slot=slot, runs=()))
        return ForwardBatch(
            token_ids=ints(size),
            positions=ints(size),
            kv_slots=ints(size, fill=scratch_slot),
            num_decode=size,
            decode_pages=ints(size, self._width, fill=self._scratch_page, dtype=torch.int32),
            decode_lengths=ints(size, fill=1, dtype=torch.int32),
            max_decode_length=self._width * self._arena.layout.page_tokens,
            prefill_pages=ints(0, 0, dtype=torch.int32),
            prefill_starts=ints(1, dtype=torch.int32),
            prefill_lengths=ints(0, dtype=torch.int32),
            prefill_bounds=(),
            logit_rows=torch.arange(size, device=device),
            lora=segments,
        )

    def _load(self, static: ForwardBatch, batch: ForwardBatch) -> None:
        """Copy a step's contents in and make the rest padding."""
        count = batch.num_decode
        scratch_slot = self._scratch_page * self._arena.layout.page_tokens
        for target, source, rest in (
            (static.token_ids, batch.token_ids, 0),
            (static.positions, batch.positions, 0),
            (static.kv_slots, batch.kv_slots, scratch_slot),
            (static.decode_lengths, batch.decode_lengths, 1),
        ):
            target[:count].copy_(source)
            target[count:].fill_(rest)
        static.decode_pages.fill_(self._scratch_page)
        static.decode_pages[:count, : batch.decode_pages.shape[1]].copy_(batch.decode_pages)
        if static.lora is not None and batch.lora is not None:
            num = len(batch.lora.segments.rows)
            for name in ("start", "rows", "slot"):
                target = getattr(static.lora.segments, name)
                target[:num].copy_(getattr(batch.lora.segments, name))
            static.lora.segments.rows[num:].fill_(0)
