"""Adapters of known matrices laid out in an arena, and mixes of them in a batch, named as in Punica."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import BLOCK_RANKS, MODULES, LoraBatch, LoraTables, cut_runs

IN_FEATURES = (40, 40, 40, 56, 40, 40, 72)
OUT_FEATURES = (56, 24, 24, 40, 72, 72, 40)
NUM_LAYERS = 2

# (first row, rows, slot); rows between runs belong to the base
MIXES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "identical": ((0, 7, 1),),
    "distinct": tuple((row, 1, row) for row in range(4)),
    "uniform": ((0, 3, 2), (4, 3, 0), (7, 3, 5)),
    "skewed": ((1, 1, 4), (2, 19, 0), (24, 1, 0), (25, 2, 3)),
    "base_only": (),
}
NUM_ROWS = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The same matrices twice: as they are, and as the kernels find them."""

    a: dict[tuple[int, int, int], Tensor]
    """(slot, layer, module) → [rank, in]"""
    b: dict[tuple[int, int, int], Tensor]
    """(slot, layer, module) → [rank, out]"""
    tables: LoraTables
    arena: Tensor
    """NaN wherever no matrix lies."""

    def batch(self, runs: tuple[tuple[int, int, int], ...], *, capacity: int | None = None) -> LoraBatch:
        """A batch of these adapters."""
        return LoraBatch(arena=self.arena, tables=self.tables, segments=cut_runs(runs, capacity=capacity), version=1)

    def expected(self, x: Tensor, out: Tensor, runs: tuple[tuple[int, int, int], ...], layer: int, modules: range) -> Tensor:
        """``out`` with every adapter's product added, from the matrices as they are."""
        result = out.float().clone()
        for start, rows, slot in runs:
            column = 0
            for module in modules:
                if (slot, layer, module) in self.a:
                    delta = x[start : start + rows].float() @ self.a[slot, layer, module].float().T @ self.b[slot, layer, module].float()
                    result[start : start + rows, column : column + OUT_FEATURES[module]] += delta
                column += OUT_FEATURES[module]
        return result.to(out.dtype)


def adapters_of(ranks: tuple[int, ...], *, dtype: torch.dtype = torch.float32) -> Adapters:
    """One adapter a rank, without some of its modules, its blocks here and there side by side and here and there apart."""
    a: dict[tuple[int, int, int], Tensor] = {}
    b: dict[tuple[int, int, int], Tensor] = {}
    num_blocks = -(-max(ranks) // BLOCK_RANKS)
    shape = (len(ranks), NUM_LAYERS, len(MODULES), num_blocks)
    a_blocks, b_blocks = torch.full(shape, -1), torch.full(shape, -1)
    table = torch.zeros(shape[:3], dtype=torch.int32)
    pieces: list[Tensor] = [torch.full((8,), torch.nan, dtype=dtype)]
    generator = torch.Generator().manual_seed(len(ranks))
    for slot, rank in enumerate(ranks):
        for layer in range(NUM_LAYERS):
            for module in range(len(MODULES)):
                if torch.rand(1, generator=generator) < 0.25:
                    continue
                key = (slot, layer, module)
                table[key] = rank
                a[key] = (torch.randn(rank, IN_FEATURES[module], generator=generator) / IN_FEATURES[module] ** 0.5).to(dtype)
                b[key] = (torch.randn(rank, OUT_FEATURES[module], generator=generator) / rank**0.5).to(dtype)
                _lay(pieces, a[key], a_blocks[key], generator)
                _lay(pieces, b[key], b_blocks[key], generator)
    tables = LoraTables(a_blocks=a_blocks, b_blocks=b_blocks, ranks=table, in_features=IN_FEATURES, out_features=OUT_FEATURES)
    return Adapters(a=a, b=b, tables=tables, arena=torch.cat(pieces))


def _lay(pieces: list[Tensor], matrix: Tensor, offsets: Tensor, generator: torch.Generator) -> None:
    """Append a matrix block by block, with a gap of NaN before one block in five."""
    for i, block in enumerate(matrix.split(BLOCK_RANKS)):
        if torch.rand(1, generator=generator) < 0.2:
            pieces.append(torch.full((8,), torch.nan, dtype=matrix.dtype))
        offsets[i] = sum(piece.numel() for piece in pieces)
        pieces.append(block.flatten())
