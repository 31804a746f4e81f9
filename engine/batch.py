"""The tensors of one step, passed as an argument from the runner to the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.lora_batch import LoraBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch:
    """One forward pass over ``T`` tokens: ``B_d`` decode rows (one token each) first, then ``B_p`` prefill sequences.

    Int tensors lie on the model's device. ``max_*`` are host integers, for grids and slices.
    """

    token_ids: Tensor
    """[T] int64"""
    positions: Tensor
    """[T] int64"""
    kv_slots: Tensor
    """[T] int64: page · page_tokens + offset, where each token's key and value go."""
    num_decode: int
    decode_pages: Tensor
    """[B_d, P_d] int32 page ids, padded with 0."""
    decode_lengths: Tensor
    """[B_d] int32 keys to attend to, the new one included."""
    max_decode_length: int
    prefill_pages: Tensor
    """[B_p, P_p] int32"""
    prefill_starts: Tensor
    """[B_p + 1] int32: first query of each sequence, counted from token ``num_decode``."""
    prefill_lengths: Tensor
    """[B_p] int32 keys to attend to, cached and new."""
    prefill_bounds: tuple[tuple[int, int, int], ...]
    """Host copy, one a sequence: (first query, end query, keys)."""
    logit_rows: Tensor
    """[R] int64: tokens whose logits are wanted."""
    lora: LoraBatch | None = None
    """None: no adapter in the batch, and no LoRA kernel is launched."""
