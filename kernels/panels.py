"""The base's products on CPU: weights in panels of columns, read from memory once however many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from numba import njit

from kernels.cpu_loop import CpuLoop, floats, share
from kernels.dispatch import require
from kernels.register_tile import PANEL, UNROLL, register_tile

if TYPE_CHECKING:
    from torch import Tensor

ALIGN_BYTES = 64
BLOCK_K = 96
"""Steps of k after which sums go to memory and the next begin at zero: a panel's block of 9 KiB then stays in the nearest cache for all
rows, and no long sum loses its last digits."""
BLOCK_ROWS = 64
"""Rows that meet a panel before the next one."""


class Panels:
    """``y = x · Wᵀ + b`` for fp32 on the CPU. Immutable; keeps no reference to ``weight``.

    A row's result has the same bits in any batch. Bytes: the weights once for each ``BLOCK_ROWS`` rows. Flops: 2·T·K·N.
    """

    __slots__ = ("depth", "nbytes", "packed", "start", "width")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """weight [N, K] · bias [N]."""
        self.width, self.depth = weight.shape
        num_panels = -(-self.width // PANEL)
        flat = weight.new_empty(num_panels * self.depth * PANEL + ALIGN_BYTES // 4)
        first = -flat.data_ptr() % ALIGN_BYTES // 4
        self.packed = flat[first : first + num_panels * self.depth * PANEL].view(num_panels, self.depth, PANEL)
        whole = self.width // PANEL
        self.packed[:whole] = weight[: whole * PANEL].view(whole, PANEL, self.depth).transpose(1, 2)
        if whole < num_panels:
            self.packed[whole] = 0
            self.packed[whole, :, : self.width - whole * PANEL] = weight[whole * PANEL :].T
        self.start = weight.new_zeros(num_panels * PANEL)
        """What sums begin with."""
        if bias is not None:
            self.start[: self.width] = bias
        self.nbytes = flat.nbytes + self.start.nbytes
        """Bytes held: those of the weight, a few columns that fill the last panel, and the start."""

    def __call__(self, x: Tensor) -> Tensor:
        """[T, K] → [T, N]."""
        require(x.dim() == 2 and x.shape[1] == self.depth and x.stride(1) == 1, "panels", "x must be [T, K] with contiguous rows")
        require(x.dtype == torch.float32 and not x.is_cuda, "panels", "x must be fp32 on the CPU")
        out, spare = x.new_empty(x.shape[0], self.width), self.spare(x)
        panels_loop(x.shape[0] * self.packed.numel(), *self.arguments(x, out, spare))
        return out

    def spare(self, x: Tensor) -> Tensor:
        """Where the last panel's columns go first when they are more than the output's; empty where they are not."""
        return x.new_empty(x.shape[0], PANEL if self.width % PANEL else 0)

    def arguments(self, x: Tensor, out: Tensor, spare: Tensor) -> tuple[int, ...]:
        """Of the loop."""
        addresses = [each.data_ptr() for each in (self.packed, x, self.start, out, spare)]
        return (*addresses, x.stride(0), x.shape[0], self.depth, self.width)


tile_4 = register_tile(4, lines_ahead=2)
tile_2 = register_tile(2, lines_ahead=6)
tile_1 = register_tile(1, lines_ahead=6)


@CpuLoop
def panels_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of panels. While rows meet one block of a panel, the next one is on its way.

    A block is 1.5 lines a k: four tiles of four rows fetch two lines every four k, fewer rows all six.
    """
    packed, x, start, out, spare = a[0], a[1], a[2], a[3], a[4]
    stride_x, num_rows, depth, width = 4 * a[5], a[6], a[7], a[8]
    first, end = share((width + PANEL - 1) // PANEL)
    for first_row in range(0, num_rows, BLOCK_ROWS):
        end_row = min(first_row + BLOCK_ROWS, num_rows)
        for panel in range(first, end):
            columns = min(PANEL, width - panel * PANEL)
            target, stride = (out + 4 * PANEL * panel, 4 * width) if columns == PANEL else (spare, 4 * PANEL)
            for k in range(0, depth, BLOCK_K):
                count = min(BLOCK_K, depth - k)
                weights = packed + 4 * PANEL * (panel * depth + k)
                following = weights + 4 * PANEL * count
                row = first_row
                while row < end_row:
                    o_x, o_out = x + row * stride_x + 4 * k, target + row * stride
                    begin, stride_begin = (start + 4 * PANEL * panel, 0) if k == 0 else (o_out, stride)
                    if row + 4 <= end_row:
                        part = following + (row - first_row) // 4 % 4 * (count // UNROLL) * 128
                        tile_4(weights, o_x, stride_x, begin, stride_begin, o_out, stride, count, part)
                        row += 4
                    elif row + 2 <= end_row:
                        tile_2(weights, o_x, stride_x, begin, stride_begin, o_out, stride, count, following)
                        row += 2
                    else:
                        tile_1(weights, o_x, stride_x, begin, stride_begin, o_out, stride, count, following)
                        row += 1
            if columns < PANEL:
                copy_columns(floats(spare), floats(out), first_row, end_row, columns, width, panel * PANEL)


@njit(inline="always")
def copy_columns(spare, out, first_row, end_row, columns, width, column):  # type: ignore[no-untyped-def]
    """Of a panel that is wider than what is left of ``out``."""
    for row in range(first_row, end_row):
        for n in range(columns):
            out[row * width + column + n] = spare[row * PANEL + n]
