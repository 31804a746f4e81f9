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

    Count = int | NDArray[np.int32]

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
        self.pages = torch.from_numpy(page_table.numpy()[used])  # [sum of pages], sequence by sequence
        first_key = np.concatenate(([0], np.cumsum(num_pages)[:-1])) * page_tokens
        most = int(counts.max())
        self.keys = scratch.take("keys", len(self.pages), page_tokens, num_kv_heads, size)
        self.values = scratch.take("values", len(self.pages), page_tokens, num_kv_heads, size)
        self.scores = scratch.take("scores", len(counts), num_q_heads, most)
        self.weights = scratch.take("weights", len(counts), num_q_heads, most)
        self.scores.fill_(-torch.inf)  # beyond a sequence's length for good: the products write only up to it
        self.out = scratch.take("out", len(counts), num_q_heads, size)
        group = num_q_heads // num_kv_heads
        sequence, head = np.repeat(np.arange(len(counts)), num_kv_heads), np.tile(np.arange(num_kv_heads), len(counts))
        self._rows, self._columns = sequence, 4 * head * group * size
        self._queries = np.zeros(len(sequence), dtype=np.int64)
        key_row = num_kv_heads * size  # elements of one key of all heads
        at_key = 4 * (first_key[sequence] * key_row + head * size)
        at_score, at_out = (4 * (sequence * num_kv_heads + head) * group * width for width in (most, size))
        keys, values = self.keys.data_ptr() + at_key, self.values.data_ptr() + at_key
        many = counts[sequence].astype(np.int32)
        self._score = Sgemm(
            left=self._queries,
            right=keys,
            out=self.scores.data_ptr() + at_score,
            sizes=(group, many, size),
            rows=(size, key_row, most),
            transpose=True,
        )
        self._mix = Sgemm(
            left=self.weights.data_ptr() + at_score,
            right=values,
            out=self.out.data_ptr() + at_out,
            sizes=(group, size, many),
            rows=(most, key_row, size),
        )

    def attend(self, q: Tensor, k_pages: Tensor, v_pages: Tensor, *, scale: float) -> Tensor:
        """q [B, Hq, D], heads contiguous → [B, Hq, D], valid until the next call. What lies beyond a length is never read."""
        torch.index_select(k_pages, 0, self.pages, out=self.keys)
        torch.index_select(v_pages, 0, self.pages, out=self.values)
        np.multiply(self._rows, 4 * q.stride(0), out=self._queries)
        self._queries += self._columns + q.data_ptr()
        self._score(scale)
        torch.softmax(self.scores, 2, out=self.weights)
        self._mix(1.0)
        return self.out


class Sgemm:
    """One batched product ``out = alpha · left · right``, ready to be called; each array is one address or size a product.

    ``sizes`` = (rows, columns, inner), ``rows`` = elements from row to row of left, right and out.
    """

    def __init__(
        self,
        *,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        out: NDArray[np.int64],
        sizes: tuple[Count, Count, Count],
        rows: tuple[int, int, int],
        transpose: bool = False,
    ) -> None:
        def ints(value: Count) -> NDArray[np.int32]:
            return value if isinstance(value, np.ndarray) else np.full(len(left), value, dtype=np.int32)

        self._alpha, zero = np.ones(len(left), dtype=np.float32), np.zeros(len(left), dtype=np.float32)
        m, n, k = (ints(size) for size in sizes)
        left_row, right_row, out_row = (ints(row) for row in rows)
        operations = ints(KEEP), ints(TRANSPOSE if transpose else KEEP)
        self._arrays: tuple[NDArray[Any], ...] = (
            *(*operations, m, n, k, self._alpha),
            *(left, left_row, right, right_row, zero, out, out_row, ints(1)),
        )
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in self._arrays]
        self._arguments = (ctypes.c_int(ROW_MAJOR), *pointers[:-1], ctypes.c_int(len(left)), pointers[-1])

    def __call__(self, alpha: float) -> None:
        """Multiply."""
        sgemm = batched_sgemm()
        assert sgemm is not None
        self._alpha.fill(alpha)
        sgemm(*self._arguments)
