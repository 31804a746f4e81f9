"""Which adapter's matrices meet which token rows in one forward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from kernels.lora_layout import BLOCK_RANKS, GROUPS, MODULES, GroupName
from kernels.lora_plan import LoraPlan, plan_products

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    Run = tuple[int, int, int]
    """(first row, rows, slot)"""

MAX_SEGMENT_ROWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraTables:
    """Where each running adapter's matrices lie: ``S`` slots, ``L`` layers, 7 modules, ``NB`` blocks of 16 rank rows."""

    a_blocks: Tensor
    """[S, L, 7, NB] int64: element offset of each block of A in the arena, -1 where there is none."""
    b_blocks: Tensor
    """[S, L, 7, NB] int64: likewise for B transposed."""
    ranks: Tensor
    """[S, L, 7] int32: rank of each module, 0 where the adapter leaves it alone."""
    in_features: tuple[int, ...]
    """Input width of each of the 7 modules."""
    out_features: tuple[int, ...]
    """Output width of each of the 7 modules."""

    @property
    def alignment(self) -> int:
        """Elements that every offset is a multiple of, up to 16: what the kernels may load at once."""
        return math.gcd(16, *self.in_features, *self.out_features)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSegments:
    """Runs of token rows of one adapter, cut to at most 16 rows; rows of the base belong to none."""

    start: Tensor
    """[G] int32"""
    rows: Tensor
    """[G] int32, 0 for a dead segment (padding of a captured graph)."""
    slot: Tensor
    """[G] int32"""
    runs: tuple[Run, ...]
    """Host copy before the cut."""


def cut_runs(runs: Sequence[Run], *, capacity: int | None = None, device: torch.device | str = "cpu") -> LoraSegments:
    """Cut runs to segments of at most 16 rows, padded with dead segments to ``capacity``. Raises ValueError when they do not fit."""
    cut = [
        (start + done, min(MAX_SEGMENT_ROWS, rows - done), slot)
        for start, rows, slot in runs
        for done in range(0, rows, MAX_SEGMENT_ROWS)
    ]  # fmt: skip
    size = len(cut) if capacity is None else capacity
    if len(cut) > size:
        msg = f"{len(cut)} segments do not fit in {size}"
        raise ValueError(msg)
    table = np.zeros((3, -(-size // 4) * 4), dtype=np.int32)  # rows at multiples of 16 bytes, which Triton compiles for
    table[:, : len(cut)] = np.array(cut, dtype=np.int32).reshape(-1, 3).T
    start, rows, slot = torch.from_numpy(table).to(device)[:, :size]
    return LoraSegments(start=start, rows=rows, slot=slot, runs=tuple(runs))


@dataclass(frozen=True, kw_only=True)
class LoraBatch:
    """The adapters of a batch; kept over many steps while its runs and the version of its tables stay the same.

    Owned by the engine thread. Without slots, for ``cached_property`` needs a dict: what a step needs is prepared once, on first use.
    """

    arena: Tensor
    """Flat, of the serving dtype."""
    tables: LoraTables
    segments: LoraSegments
    version: int
    """Of the slot table that ``tables`` was made from."""

    def serves(self, runs: Sequence[Run], version: int) -> bool:
        """Whether this batch may be used again for these runs and this version of the slot table."""
        return self.version == version and self.segments.runs == tuple(runs)

    def call(self, layer: int, group: GroupName) -> LoraCall:
        """The part of one fused projection of one layer."""
        return self._calls[group][layer]

    @cached_property
    def plan(self) -> LoraPlan:
        """The products of every layer, with sizes and addresses prepared; CPU only."""
        return plan_products(self)

    @cached_property
    def _calls(self) -> dict[GroupName, list[LoraCall]]:
        return {group: [self._call_of(layer, group) for layer in range(self.tables.ranks.shape[1])] for group in GROUPS}

    def _call_of(self, layer: int, group: GroupName) -> LoraCall:
        first, count = GROUPS[group]
        widths = self.tables.out_features[first : first + count]
        return LoraCall(
            batch=self,
            layer=layer,
            group=group,
            modules=range(first, first + count),
            in_features=self.tables.in_features[first],
            out_features=widths,
            out_columns=sum(widths),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraCall:
    """What ``lora_shrink`` and ``lora_expand`` need for one fused projection of one layer."""

    batch: LoraBatch
    layer: int
    group: GroupName
    modules: range
    """Indices of the modules of the group."""
    in_features: int
    """Columns of ``x``."""
    out_features: tuple[int, ...]
    """Columns that each module writes, side by side."""
    out_columns: int
    """Columns of ``out``."""

    @property
    def scratch_columns(self) -> int:
        """Columns of ``h`` that hold any adapter the tables can describe."""
        return len(self.modules) * self.batch.tables.a_blocks.shape[3] * BLOCK_RANKS

    def matrices(self, kind: str, slot: int) -> list[Tensor]:
        """One slot's A or B transposed of each module, [rank, width], gathered from their blocks; host syncs, for references."""
        tables = self.batch.tables
        offsets, widths = (tables.a_blocks, tables.in_features) if kind == "a" else (tables.b_blocks, tables.out_features)
        found = []
        for module in self.modules:
            rank, width = int(tables.ranks[slot, self.layer, module]), widths[module]
            sizes = [min(BLOCK_RANKS, rank - done) * width for done in range(0, rank, BLOCK_RANKS)]
            starts = offsets[slot, self.layer, module].tolist()
            blocks = [self.batch.arena[start : start + size] for start, size in zip(starts, sizes, strict=False)]
            found.append(torch.cat([*blocks, self.batch.arena[:0]]).view(rank, width).float())
        return found


assert sum(count for _, count in GROUPS.values()) == len(MODULES)
