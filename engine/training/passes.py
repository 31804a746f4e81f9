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

PAGE_TOKENS = 16


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
    batch, num_pages = lay_out(examples, weights)
    pages = FreshPages(num_pages, model.spec.num_kv_heads, model.spec.head_dim)
    targets = torch.tensor([token for each in examples for token in each.token_ids[each.num_prompt :]])
    return functional.cross_entropy(model.logits(batch, pages), targets, reduction="sum")


def lay_out(examples: Sequence[Example], weights: LoraWeights) -> tuple[ForwardBatch, int]:
    """(the batch, pages it needs): whole chats side by side; a target's logits are those of the token before it."""
    lengths = [len(each.token_ids) for each in examples]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    counts = [-(-length // PAGE_TOKENS) for length in lengths]
    first_page = np.concatenate(([0], np.cumsum(counts)))
    table = np.zeros((len(examples), max(counts)), dtype=np.int32)
    for row, count in enumerate(counts):
        table[row, :count] = np.arange(first_page[row], first_page[row + 1])
    positions = np.concatenate([np.arange(length) for length in lengths])
    slots = np.concatenate([first_page[row] * PAGE_TOKENS + np.arange(length) for row, length in enumerate(lengths)])
    wanted = np.concatenate([starts[row] + np.arange(each.num_prompt - 1, lengths[row] - 1) for row, each in enumerate(examples)])
    batch = ForwardBatch(
        token_ids=torch.tensor([token for each in examples for token in each.token_ids]),
        positions=torch.from_numpy(positions),
        kv_slots=torch.from_numpy(slots),
        num_decode=0,
        decode_pages=torch.zeros((0, 0), dtype=torch.int32),
        decode_lengths=torch.zeros(0, dtype=torch.int32),
        max_decode_length=0,
        prefill_pages=torch.from_numpy(table),
        prefill_starts=torch.from_numpy(starts.astype(np.int32)),
        prefill_lengths=torch.tensor(lengths, dtype=torch.int32),
        prefill_bounds=tuple((int(starts[row]), int(starts[row + 1]), length) for row, length in enumerate(lengths)),
        logit_rows=torch.from_numpy(wanted),
        lora=weights.batch(int(starts[-1])),
    )
    return batch, int(first_page[-1])


def order_of(count: int, epoch: int, seed: int) -> NDArray[np.int64]:
    """The order in which an epoch takes its chats."""
    return np.random.default_rng((seed, epoch)).permutation(count)
