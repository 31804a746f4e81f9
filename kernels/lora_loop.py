"""Decode's LoRA products on CPU: one token row each, so a matrix is read once and never again; its bytes are shared out evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.cpu_loop import CpuLoop, f32, floats, longs, share

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.cpu_loop import LoopCall
    from kernels.grouped_gemm import Products


class LoopWave:
    """The products ``[low, high)`` of one row each, in any order. Keeps arena and scratch alive; owned by the engine thread."""

    __slots__ = ("_addresses", "_count", "_keep", "_loop", "_row", "_work")

    def __init__(self, products: Products, low: int, high: int, arena: Tensor, scratch: Tensor) -> None:
        expands = products.kind == "expand"
        part = slice(low, high)
        start, ranks, width = products.start[part], products.ranks[part], products.width[part]
        weights = arena.data_ptr() + 4 * products.weight[part]
        hidden = scratch.data_ptr() + 4 * (start * scratch.shape[1] + products.column[part])
        activation = start * products.activation_columns + (products.out_column[part] if expands else 0)
        before = np.concatenate(([0], np.cumsum(ranks * width)))
        arrays = [np.ascontiguousarray(each, dtype=np.int64) for each in (weights, hidden, activation, ranks, width, before)]
        self._keep = (arena, scratch, arrays)
        self._addresses = tuple(each.ctypes.data for each in arrays)
        self._count, self._work = high - low, int(before[-1])
        self._loop = expand_rows_loop if expands else shrink_rows_loop

    def __len__(self) -> int:
        return self._count

    def run(self, activation: Tensor) -> None:
        """Multiply: ``activation`` is ``x`` of a shrink or ``out`` of an expand, contiguous fp32."""
        self._loop(self._work, *self._addresses, activation.data_ptr(), self._count)

    def prepare(self, activation: Tensor) -> LoopCall:
        """The same for a ``LoopProgram``, as long as this wave and the activation live."""
        return self._loop.prepare(*self._addresses, activation.data_ptr(), self._count)


@CpuLoop
def shrink_rows_loop(a):  # type: ignore[no-untyped-def]
    """h[r] = A[r] · x. Each thread takes a run of matrix rows of about as many elements as the others', four rows to a pass over x."""
    weights, hidden, starts, ranks, widths, before = longs(a[0]), longs(a[1]), longs(a[2]), longs(a[3]), longs(a[4]), longs(a[5])
    x, count = floats(a[6]), a[7]
    first, end = share(before[count])
    for product in range(count):
        width, rank, done = widths[product], ranks[product], before[product]
        if done + rank * width <= first or done >= end:
            continue
        row = max(0, -((done - first) // width))
        last = min(rank, -((done - end) // width))
        matrix, h, o_x = floats(weights[product]), floats(hidden[product]), starts[product]
        while row + 4 <= last:
            o_0 = row * width
            o_1, o_2, o_3 = o_0 + width, o_0 + 2 * width, o_0 + 3 * width
            s_0, s_1, s_2, s_3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            for k in range(width):
                value = x[o_x + k]
                s_0 += matrix[o_0 + k] * value
                s_1 += matrix[o_1 + k] * value
                s_2 += matrix[o_2 + k] * value
                s_3 += matrix[o_3 + k] * value
            h[row], h[row + 1], h[row + 2], h[row + 3] = s_0, s_1, s_2, s_3
            row += 4
        while row < last:
            s_0 = f32(0.0)
            for k in range(width):
                s_0 += matrix[row * width + k] * x[o_x + k]
            h[row] = s_0
            row += 1


@CpuLoop
def expand_rows_loop(a):  # type: ignore[no-untyped-def]
    """out += h · B. Each thread takes a run of output columns of about as many elements as the others', four matrix rows to a pass."""
    weights, hidden, starts, ranks, widths, before = longs(a[0]), longs(a[1]), longs(a[2]), longs(a[3]), longs(a[4]), longs(a[5])
    out, count = floats(a[6]), a[7]
    first, end = share(before[count])
    for product in range(count):
        width, rank, done = widths[product], ranks[product], before[product]
        if done + rank * width <= first or done >= end:
            continue
        column = max(0, -((done - first) // rank))
        last = min(width, -((done - end) // rank))
        matrix, h, o_out = floats(weights[product]), floats(hidden[product]), starts[product]
        row = 0
        while row + 4 <= rank:
            o_0 = row * width
            o_1, o_2, o_3 = o_0 + width, o_0 + 2 * width, o_0 + 3 * width
            h_0, h_1, h_2, h_3 = h[row], h[row + 1], h[row + 2], h[row + 3]
            for n in range(column, last):
                out[o_out + n] += h_0 * matrix[o_0 + n] + h_1 * matrix[o_1 + n] + h_2 * matrix[o_2 + n] + h_3 * matrix[o_3 + n]
            row += 4
        while row < rank:
            h_0 = h[row]
            for n in range(column, last):
                out[o_out + n] += h_0 * matrix[row * width + n]
            row += 1
