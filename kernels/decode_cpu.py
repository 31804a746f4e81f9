"""Decode attention on CPU in a handful of calls a layer: gather the pages, one batched product for the scores, softmax, one for the values.

What depends only on lengths and pages is worked out once a step and used by every layer. Between the base's matrices, which leave no
cache line of anything else behind, each torch call costs some tens of microseconds: the number of calls is what counts.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels.grouped_gemm import KEEP, ROW_MAJOR, TRANSPOSE, batched_sgemm

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

MOST_KEYS = 4096
"""Above so many keys of all sequences together, splitting them over threads by torch's own kernel is faster."""


def can_plan(lengths: Tensor, dtype: torch.dtype) -> bool:
    """Whether ``DecodePlan`` serves these rows: fp32 on CPU, MKL's batched product there, and not too many keys."""
    if lengths.is_cuda or dtype != torch.float32 or batched_sgemm() is None:
        return False
    return 0 < int(lengths.sum()) <= MOST_KEYS


class DecodeScratch:
    """Buffers that grow and are kept from step to step. Owned by the engine thread."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        """An fp32 view of that shape, contents left over; valid until the next ``take`` of that name."""
        size = int(np.prod(shape))
        held = self._buffers.get(name)
        if held is None or held.numel() < size:
            held = self._buffers[name] = torch.empty(max(size, 1))
        return held[:size].view(shape)


class DecodePlan:
    """One step's decode rows: ``page_table`` [B, P] int32, ``lengths`` [B] int32 ≥ 1, ``heads`` = (query heads, key heads, size)."""

    def __init__(
        self, page_table: Tensor, lengths: Tensor, *, page_tokens: int, heads: tuple[int, int, int], scratch: DecodeScratch
    ) -> None:
        num_q_heads, num_kv_heads, size = heads
        counts = lengths.numpy().astype(np.int64)
        num_pages = -(-counts // page_tokens)
        used = np.arange(page_table.shape[1]) < num_pages[:, None]
        self.heads = heads
        self.pages = torch.from_numpy(page_table.numpy()[used])  # [sum of pages], sequence by sequence
        first_key = np.concatenate(([0], np.cumsum(num_pages)[:-1])) * page_tokens
        most = int(counts.max())
        self.keys = scratch.take("keys", len(self.pages), page_tokens, num_kv_heads, size)
        self.values = scratch.take("values", len(self.pages), page_tokens, num_kv_heads, size)
        self.scores = scratch.take("scores", len(counts), num_q_heads, most)
        self.weights = scratch.take("weights", len(counts), num_q_heads, most)
        self.scores.fill_(-torch.inf)  # beyond a sequence's length for good: the products write only up to it
        group = num_q_heads // num_kv_heads
        self._products = _Products(counts, first_key, most, group=group, num_kv_heads=num_kv_heads, size=size)

    def attend(self, q: Tensor, k_pages: Tensor, v_pages: Tensor, *, scale: float) -> Tensor:
        """q [B, Hq, D], heads contiguous → [B, Hq, D], over every key of each sequence. What lies beyond a length is never read."""
        torch.index_select(k_pages, 0, self.pages, out=self.keys)
        torch.index_select(v_pages, 0, self.pages, out=self.values)
        self._products.score(q, self.keys, self.scores, scale)
        torch.softmax(self.scores, 2, out=self.weights)
        out = torch.empty(q.shape)
        self._products.mix(self.weights, self.values, out)
        return out


class _Products:
    """Sizes and addresses of the two batched products, one for each sequence and key head."""

    def __init__(
        self, counts: NDArray[np.int64], first_key: NDArray[np.int64], most: int, *, group: int, num_kv_heads: int, size: int
    ) -> None:
        sequence = np.repeat(np.arange(len(counts)), num_kv_heads)
        head = np.tile(np.arange(num_kv_heads), len(counts))
        self._count = len(sequence)
        row = num_kv_heads * size  # elements of one key of all heads
        self._at_query = (sequence, head * group * size)
        self._at_key = 4 * (first_key[sequence] * row + head * size)
        self._at_score = 4 * (sequence * num_kv_heads + head) * group * most
        self._at_out = 4 * (sequence * num_kv_heads + head) * group * size
        self._keys = counts[sequence].astype(np.int32)
        ints = [np.full(self._count, value, dtype=np.int32) for value in (group, size, row, most, KEEP, TRANSPOSE, 1)]
        self._group, self._size, self._row, self._most, self._keep, self._transpose, self._ones = ints
        self._one, self._zero = np.ones(self._count, dtype=np.float32), np.zeros(self._count, dtype=np.float32)

    def score(self, q: Tensor, keys: Tensor, scores: Tensor, scale: float) -> None:
        """scores[b, h, :keys] = scale · q[b, h] · keysᵀ."""
        sequence, column = self._at_query
        query = q.data_ptr() + 4 * (sequence * q.stride(0) + column)
        alpha = np.full(self._count, scale, dtype=np.float32)
        key, score = keys.data_ptr() + self._at_key, scores.data_ptr() + self._at_score
        sizes = (self._keep, self._transpose, self._group, self._keys, self._size)
        self._call((*sizes, alpha, query, self._size, key, self._row, self._zero, score, self._most))

    def mix(self, weights: Tensor, values: Tensor, out: Tensor) -> None:
        """out[b, h] = weights[b, h, :keys] · values."""
        weight, value = weights.data_ptr() + self._at_score, values.data_ptr() + self._at_key
        mixed = out.data_ptr() + self._at_out
        sizes = (self._keep, self._keep, self._group, self._size, self._keys)
        self._call((*sizes, self._one, weight, self._most, value, self._row, self._zero, mixed, self._size))

    def _call(self, arrays: tuple[NDArray[Any], ...]) -> None:
        sgemm = batched_sgemm()
        assert sgemm is not None
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        sgemm(ctypes.c_int(ROW_MAJOR), *pointers, ctypes.c_int(self._count), ctypes.c_void_p(self._ones.ctypes.data))
