"""Hand-made pages and batches, so that a decoder can be driven without the scheduler, the arena or the runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from engine.batch import ForwardBatch
from engine.models.config import read_spec
from engine.models.decoder import DecoderModel
from engine.models.linear import CpuWeights
from engine.models.spec import ModelSpec
from engine.weights.checkpoint import stream_checkpoint
from engine.weights.fill import fill
from kernels.lora_batch import LoraBatch

PAGE_TOKENS = 16


def load_model(folder: Path, cpu_weights: CpuWeights = "fp32") -> DecoderModel:
    """The decoder of a folder, fp32 on the CPU."""
    spec = read_spec(folder)
    weights = fill(spec, stream_checkpoint(folder), device=torch.device("cpu"), dtype=torch.float32, cpu_weights=cpu_weights)
    return DecoderModel(spec, weights)


class Pages:
    """Pages filled with NaN, as an arena in which every stale key would show."""

    def __init__(self, spec: ModelSpec, num_pages: int) -> None:
        shape = (num_pages, 2, spec.num_layers, PAGE_TOKENS, spec.num_kv_heads, spec.head_dim)
        self.values = torch.full(shape, float("nan"))

    def k_pages(self, layer: int) -> Tensor:
        """[num_pages, page_tokens, heads, head_dim]."""
        return self.values[:, 0, layer]

    def v_pages(self, layer: int) -> Tensor:
        """[num_pages, page_tokens, heads, head_dim]."""
        return self.values[:, 1, layer]


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens ``[start, end)`` of one sequence whose keys lie in ``pages``."""

    tokens: Sequence[int]
    pages: Sequence[int]
    start: int
    end: int


@dataclass(slots=True)
class Session:
    """A decoder with pages to hand out; page 0 is given to nobody."""

    model: DecoderModel
    num_pages: int = 64
    kv: Pages = field(init=False)
    next_page: int = 1

    def __post_init__(self) -> None:
        self.kv = Pages(self.model.spec, self.num_pages)

    def pages(self, num_tokens: int) -> list[int]:
        """Fresh pages for a sequence, the later ones first, so that order cannot hide behind adjacency."""
        count = -(-num_tokens // PAGE_TOKENS)
        first, self.next_page = self.next_page, self.next_page + count
        return list(range(first, self.next_page))[::-1]

    def run(self, decode: Sequence[Row] = (), prefill: Sequence[Row] = (), lora: LoraBatch | None = None) -> Tensor:
        """Logits of every token, decode rows first."""
        return self.model.forward(batch_of(decode, prefill, lora), self.kv)


def batch_of(decode: Sequence[Row], prefill: Sequence[Row], lora: LoraBatch | None = None) -> ForwardBatch:
    """The tensors of a mixed batch whose every token yields logits."""
    rows = [*decode, *prefill]
    positions = [at for row in rows for at in range(row.start, row.end)]
    slots = [row.pages[at // PAGE_TOKENS] * PAGE_TOKENS + at % PAGE_TOKENS for row in rows for at in range(row.start, row.end)]
    starts = [0]
    for row in prefill:
        starts.append(starts[-1] + row.end - row.start)
    return ForwardBatch(
        token_ids=torch.tensor([row.tokens[at] for row in rows for at in range(row.start, row.end)]),
        positions=torch.tensor(positions),
        kv_slots=torch.tensor(slots),
        num_decode=len(decode),
        decode_pages=table([row.pages for row in decode]),
        decode_lengths=torch.tensor([row.end for row in decode], dtype=torch.int32),
        max_decode_length=max((row.end for row in decode), default=0),
        prefill_pages=table([row.pages for row in prefill]),
        prefill_starts=torch.tensor(starts, dtype=torch.int32),
        prefill_lengths=torch.tensor([row.end for row in prefill], dtype=torch.int32),
        prefill_bounds=tuple((starts[index], starts[index + 1], row.end) for index, row in enumerate(prefill)),
        logit_rows=torch.arange(len(positions)),
        lora=lora,
    )


def table(pages: Sequence[Sequence[int]]) -> Tensor:
    """[sequences, longest] int32, padded with 0."""
    width = max(map(len, pages), default=0)
    return torch.tensor([[*each, *[0] * (width - len(each))] for each in pages], dtype=torch.int32).reshape(len(pages), width)


def in_one_pass(model: DecoderModel, tokens: Sequence[int], lora: LoraBatch | None = None) -> Tensor:
    """Logits [len(tokens), vocab] from one prefill."""
    session = Session(model)
    return session.run(prefill=[Row(tokens, session.pages(len(tokens)), 0, len(tokens))], lora=lora)


def in_chunks(model: DecoderModel, tokens: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The same from prefills of these sizes, each reading the keys of those before."""
    session, parts, start = Session(model), [], 0
    pages = session.pages(len(tokens))
    for size in sizes:
        parts.append(session.run(prefill=[Row(tokens, pages, start, start + size)]))
        start += size
    assert start == len(tokens)
    return torch.cat(parts)


def one_by_one(model: DecoderModel, tokens: Sequence[int]) -> Tensor:
    """The same from decode steps of one token."""
    session = Session(model)
    pages = session.pages(len(tokens))
    return torch.cat([session.run(decode=[Row(tokens, pages, at, at + 1)]) for at in range(len(tokens))])
