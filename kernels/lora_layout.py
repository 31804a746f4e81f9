"""How an adapter's matrices are named, grouped and cut in the arena.

For one module of one layer an adapter holds ``A`` [rank, in] and ``Bt`` [rank, out] (B transposed, its scale folded in), row-major, cut
into blocks of 16 rank rows (the last may be shorter). A block is contiguous; the blocks of a matrix that fits in a page follow one another.
Every block starts at a multiple of the greatest common divisor of all widths and 16, as it does where matrices lie side by side from the
start of a page.
"""

from __future__ import annotations

from typing import Literal

GroupName = Literal["qkv", "o", "gate_up", "down"]

BLOCK_RANKS = 16
"""Rank rows in one block, and the smallest side of a tensor-core product."""

MODULES = ("q", "k", "v", "o", "gate", "up", "down")

GROUPS: dict[GroupName, tuple[int, int]] = {"qkv": (0, 3), "o": (3, 1), "gate_up": (4, 2), "down": (6, 1)}
"""First module and number of modules of each fused projection; they share one input and write side by side."""
