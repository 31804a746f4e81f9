"""The matrix products of a LoRA batch on CPU, found for all layers at once in numpy.

A product is one piece of a matrix (blocks that follow one another in the arena, merged) with one run of token rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from kernels.grouped_gemm import Products, ProductWave, waves_of
from kernels.lora_layout import BLOCK_RANKS, GROUPS, GroupName

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.lora_batch import LoraBatch

    Ints = NDArray[np.int64]
    Waves = tuple[ProductWave, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraPlan:
    """What each layer has to multiply; products that add into the same outputs are in different waves."""

    scratch: Tensor
    """[rows, columns] fp32, overwritten by every shrink."""
    shrink: dict[GroupName, list[Waves]]
    """Waves of each layer."""
    expand: dict[GroupName, list[Waves]]


def plan_products(batch: LoraBatch) -> LoraPlan:
    """Find all products of a batch; a few milliseconds for 16 adapters of 30 layers."""
    runs = np.array(batch.segments.runs, dtype=np.int64).reshape(-1, 3)
    ranks = batch.tables.ranks.numpy()[runs[:, 2]]
    columns = max((int(ranks[:, :, first : first + count].sum(axis=2).max(initial=0)) for first, count in GROUPS.values()), default=0)
    scratch = torch.empty(int((runs[:, 0] + runs[:, 1]).max(initial=0)), columns)
    num_layers = ranks.shape[1]
    shrink: dict[GroupName, list[Waves]] = {}
    expand: dict[GroupName, list[Waves]] = {}
    for group in GROUPS:
        blocks = _blocks_of(batch, runs, group)
        shrink[group] = _by_layer(_merge(blocks, "shrink"), batch.arena, scratch, num_layers)
        expand[group] = _by_layer(_merge(blocks, "expand"), batch.arena, scratch, num_layers)
    return LoraPlan(scratch=scratch, shrink=shrink, expand=expand)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """Every block of a group that meets a run, in the order layer, run, module, block; all arrays [N] int64."""

    layer: Ints
    run: Ints
    module: Ints
    start: Ints
    """First token row."""
    rows: Ints
    """Token rows."""
    ranks: Ints
    """Rank rows of the block."""
    column: Ints
    """First column in ``h``."""
    a_offset: Ints
    b_offset: Ints
    in_features: int
    out_features: Ints
    out_column: Ints
    out_columns: int
    """Of all modules of the group."""


def _blocks_of(batch: LoraBatch, runs: Ints, group: GroupName) -> _Blocks:
    tables = batch.tables
    first, count = GROUPS[group]
    modules = slice(first, first + count)
    slots = runs[:, 2]
    num_blocks = tables.a_blocks.shape[3]
    ranks = tables.ranks.numpy()[slots, :, modules].astype(np.int64).swapaxes(0, 1)  # [L, R, M]
    sizes = np.clip(ranks[..., None] - BLOCK_RANKS * np.arange(num_blocks), 0, BLOCK_RANKS)  # [L, R, M, NB]
    flat = sizes.reshape(*ranks.shape[:2], count * num_blocks)
    columns = (np.cumsum(flat, axis=2) - flat).reshape(sizes.shape)
    layer, run, module, block = np.nonzero(sizes)
    widths = np.array(tables.out_features[modules], dtype=np.int64)
    at = (layer, run, module, block)
    source = (slots[run], layer, first + module, block)
    return _Blocks(
        layer=layer,
        run=run,
        module=module,
        start=runs[run, 0],
        rows=runs[run, 1],
        ranks=sizes[at],
        column=columns[at],
        a_offset=tables.a_blocks.numpy()[source],
        b_offset=tables.b_blocks.numpy()[source],
        in_features=tables.in_features[first],
        out_features=widths[module],
        out_column=(np.cumsum(widths) - widths)[module],
        out_columns=int(widths.sum()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    products: Products
    layer: Ints
    wave: Ints


def _merge(blocks: _Blocks, kind: Literal["shrink", "expand"]) -> _Pieces:
    """Join blocks that follow one another; the n-th piece of a matrix that is expanded goes to wave n."""
    expands = kind == "expand"
    offset = blocks.b_offset if expands else blocks.a_offset
    width = blocks.out_features if expands else np.full_like(blocks.layer, blocks.in_features)
    same = (blocks.layer[1:] == blocks.layer[:-1]) & (blocks.run[1:] == blocks.run[:-1])
    if expands:
        same &= blocks.module[1:] == blocks.module[:-1]
    follows = offset[1:] == offset[:-1] + blocks.ranks[:-1] * width[:-1]
    head = np.flatnonzero(np.concatenate((np.ones(min(1, len(offset)), dtype=bool), ~(same & follows))))
    layer = blocks.layer[head]
    wave = np.zeros_like(head)
    if expands and len(head):
        fresh = np.concatenate((np.ones(1, dtype=bool), ~same))[head]
        place = np.arange(len(head))
        wave = place - np.maximum.accumulate(np.where(fresh, place, 0))
    order = np.lexsort((wave, layer))
    ranks = np.add.reduceat(blocks.ranks, head) if len(head) else blocks.ranks
    head = head[order]
    products = Products(
        kind=kind,
        start=blocks.start[head],
        rows=blocks.rows[head],
        column=blocks.column[head],
        weight=offset[head],
        ranks=ranks[order],
        width=width[head],
        out_column=blocks.out_column[head],
        activation_columns=blocks.out_columns if expands else blocks.in_features,
    )
    return _Pieces(products=products, layer=layer[order], wave=wave[order])


def _by_layer(pieces: _Pieces, arena: Tensor, scratch: Tensor, num_layers: int) -> list[Waves]:
    """Cut the products, sorted by layer and wave, at every change of either."""
    num_waves = int(pieces.wave.max(initial=0)) + 1
    edges = np.searchsorted(pieces.layer * num_waves + pieces.wave, np.arange(num_layers * num_waves + 1))
    bounds = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    waves = waves_of(pieces.products, bounds, arena=arena, scratch=scratch)
    return [tuple(wave for wave in waves[at : at + num_waves] if wave is not None) for at in range(0, len(waves), num_waves)]
