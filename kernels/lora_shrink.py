"""First half of LoRA: token rows down to their adapter's rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.dispatch import implementation, require
from kernels.lora_batch import MAX_SEGMENT_ROWS
from kernels.lora_layout import BLOCK_RANKS

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.lora_batch import LoraCall


def lora_shrink(x: Tensor, call: LoraCall) -> Tensor:
    """``h[t, c_i : c_i + r_i] = A_i @ x[t]`` for every module ``i`` of the token's adapter in the group.

    x [T, K], contiguous → h [T or fewer, columns] fp32, where module ``i`` of slot ``s`` starts at column ``c_i = sum(ranks[s, :i])``.
    Rows and columns of no adapter are undefined. On CPU ``h`` belongs to the batch and lives until its next shrink. Bytes: the matrices of
    each distinct adapter once (on CUDA once for every 16 rows). Flops: 2·K·r a token and module.
    """
    require(x.dim() == 2 and x.is_contiguous(), "lora_shrink", "x must be [T, K], contiguous")
    require(x.shape[1] == call.in_features, "lora_shrink", "x must be as wide as the module's input")
    require(x.dtype == call.batch.arena.dtype, "lora_shrink", "x and the arena must have one dtype")
    match implementation(x, call.batch.arena):
        case "reference":
            return lora_shrink_reference(x, call)
        case "triton":
            return lora_shrink_triton(x, call)
        case "cpu":
            for wave in call.batch.plan.shrink[call.group][call.layer]:
                wave.run(x)
            return call.batch.plan.scratch


def lora_shrink_reference(x: Tensor, call: LoraCall) -> Tensor:
    """Plain torch, zero where undefined; the gradient path."""
    h = x.new_zeros((x.shape[0], call.scratch_columns), dtype=torch.float32)
    for start, rows, slot in call.batch.segments.runs:
        stacked = torch.cat(call.matrices("a", slot))
        h[start : start + rows, : stacked.shape[0]] = x[start : start + rows].float() @ stacked.T
    return h


def lora_shrink_triton(x: Tensor, call: LoraCall) -> Tensor:
    """Launch one program a segment, block of 16 rank rows and module; those beyond an adapter's rank exit at once."""
    batch, tables = call.batch, call.batch.tables
    h = x.new_empty((x.shape[0], call.scratch_columns), dtype=torch.float32)
    num_segments, num_blocks = batch.segments.start.shape[0], tables.a_blocks.shape[3]
    if num_segments:
        lora_shrink_kernel[(num_segments, num_blocks, len(call.modules))](
            x,
            batch.arena,
            tables.a_blocks,
            tables.ranks,
            batch.segments.start,
            batch.segments.rows,
            batch.segments.slot,
            h,
            tables.ranks.stride(0),
            call.layer,
            num_blocks,
            h.shape[1],
            K=x.shape[1],
            FIRST=call.modules.start,
            ALIGN=tables.alignment,
            BLOCK_T=MAX_SEGMENT_ROWS,
            BLOCK_R=BLOCK_RANKS,
            BLOCK_K=128 if x.dtype == torch.float32 else 256,
            num_warps=4,
            num_stages=3,
        )
    return h


@triton.jit(do_not_specialize=["stride_slot", "layer", "num_blocks", "stride_h"])
def lora_shrink_kernel(  # type: ignore[no-untyped-def]
    p_x,
    p_arena,
    p_a_blocks,
    p_ranks,
    p_start,
    p_rows,
    p_slot,
    p_h,
    stride_slot,
    layer,
    num_blocks,
    stride_h,
    K: tl.constexpr,
    FIRST: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Up to 16 rows against up to 16 rank rows of one module."""
    i_segment, i_block, i_module = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = tl.load(p_rows + i_segment)
    if rows == 0:
        return
    # 7 modules a layer; where this module's ranks start, in tables of [S, L, 7] and [S, L, 7, NB]
    o_layer = tl.load(p_slot + i_segment).to(tl.int64) * stride_slot + layer * 7 + FIRST
    rank = tl.load(p_ranks + o_layer + i_module)
    if i_block * BLOCK_R >= rank:
        return
    o_column = i_block * BLOCK_R
    for i_before in range(i_module):
        o_column += tl.load(p_ranks + o_layer + i_before)
    p_a = p_arena + tl.multiple_of(tl.load(p_a_blocks + (o_layer + i_module) * num_blocks + i_block), ALIGN)
    o_t = tl.load(p_start + i_segment).to(tl.int64) + tl.arange(0, BLOCK_T)
    o_r = tl.arange(0, BLOCK_R)
    o_k = tl.arange(0, BLOCK_K)
    m_t = tl.arange(0, BLOCK_T) < rows
    m_r = i_block * BLOCK_R + o_r < rank
    p_x_tile = p_x + o_t[:, None] * K + o_k[None, :]
    p_a_tile = p_a + o_r[None, :] * K + o_k[:, None]
    b_h = tl.zeros((BLOCK_T, BLOCK_R), dtype=tl.float32)
    for o_start in range(0, K, BLOCK_K):
        m_k = o_start + o_k < K
        b_x = tl.load(p_x_tile + o_start, mask=m_t[:, None] & m_k[None, :], other=0.0)  # [BLOCK_T, BLOCK_K]
        b_a = tl.load(p_a_tile + o_start, mask=m_k[:, None] & m_r[None, :], other=0.0)  # [BLOCK_K, BLOCK_R]
        b_h = tl.dot(b_x, b_a, b_h, input_precision="ieee")
    p_h_tile = p_h + o_t[:, None] * stride_h + (o_column + o_r)[None, :]
    tl.store(p_h_tile, b_h, mask=m_t[:, None] & m_r[None, :])
