"""Forward passes with gradients: chats as one ragged prefill through the engine's own decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from engine.batch import ForwardBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from engine.models.decoder import DecoderModel
    from engine.training.chats import Example
    from engine.training.lora import LoraWeights

PAGE_TOKENS = 1
"""A page a token, so that chats share a beginning of any length."""


class FreshPages:
    """Pages for one pass: each layer gets new ones, which live as long as the gradient needs them."""

    def __init__(self, num_pages: int, num_kv_heads: int, head_dim: int) -> None:
        self._shape = (num_pages, PAGE_TOKENS, num_kv_heads, head_dim)

    def k_pages(self, layer: int) -> Tensor:  # noqa: ARG002 no layer sees another's
        """[num_pages, PAGE_TOKENS, kv_heads, head_dim] zeros."""
        return torch.zeros(self._shape)

    def v_pages(self, layer: int) -> Tensor:
        """Likewise, the values."""
        return self.k_pages(layer)


def loss_sum(model: DecoderModel, weights: LoraWeights, examples: Sequence[Example]) -> Tensor:
    """Cross-entropy of all target tokens, summed; with a gradient to the matrices."""
    batch = lay_out(examples, weights)
    pages = FreshPages(len(batch.token_ids), model.spec.num_kv_heads, model.spec.head_dim)
    targets = torch.tensor([token for each in examples for token in each.token_ids[each.num_prompt :]])
    return functional.cross_entropy(model.logits(batch, pages), targets, reduction="sum")


def shared_length(examples: Sequence[Example]) -> int:
    """Tokens with which all prompts begin, at least one short of each: a template's system message, computed once for all."""
    if len(examples) == 1:
        return 0
    shortest = min(each.num_prompt for each in examples) - 1
    first = examples[0].token_ids
    return next((at for at in range(shortest) if any(each.token_ids[at] != first[at] for each in examples)), shortest)


def lay_out(examples: Sequence[Example], weights: LoraWeights) -> ForwardBatch:
    """The shared beginning, then the rest of each chat, which attends to both; a target's logits are those of the token before it."""
    shared = shared_length(examples)
    own = [each.token_ids[shared:] for each in examples]
    runs = [examples[0].token_ids[:shared], *own] if shared else own
    begins = [0, *[shared] * len(own)] if shared else [0] * len(own)
    starts = np.concatenate(([0], np.cumsum([len(run) for run in runs])))
    lengths = [begin + len(run) for begin, run in zip(begins, runs, strict=True)]
    table = np.zeros((len(runs), max(lengths)), dtype=np.int32)
    for row, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
        table[row, :begin] = np.arange(begin)
        table[row, begin:length] = np.arange(starts[row], starts[row + 1])
    chats = starts[len(runs) - len(own) : -1]  # where each chat's own tokens begin
    wanted = [
        start + np.arange(each.num_prompt - shared - 1, len(each.token_ids) - shared - 1)
        for start, each in zip(chats, examples, strict=True)
    ]
    return ForwardBatch(
        token_ids=torch.tensor([token for run in runs for token in run]),
        positions=torch.from_numpy(np.concatenate([np.arange(begin, length) for begin, length in zip(begins, lengths, strict=True)])),
        kv_slots=torch.arange(int(starts[-1])),
        num_decode=0,
        decode_pages=torch.zeros((0, 0), dtype=torch.int32),
        decode_lengths=torch.zeros(0, dtype=torch.int32),
        max_decode_length=0,
        prefill_pages=torch.from_numpy(table),
        prefill_starts=torch.from_numpy(starts.astype(np.int32)),
        prefill_lengths=torch.tensor(lengths, dtype=torch.int32),
        prefill_bounds=tuple((int(starts[row]), int(starts[row + 1]), length) for row, length in enumerate(lengths)),
        logit_rows=torch.from_numpy(np.concatenate(wanted)),
        lora=weights.batch(int(starts[-1])),
    )


def order_of(count: int, epoch: int, seed: int) -> NDArray[np.int64]:
    """The order in which an epoch takes its chats."""
    return np.random.default_rng((seed, epoch)).permutation(count)
