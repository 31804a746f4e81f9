"""Second half of LoRA: from an adapter's rank up into the base's output."""

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


def lora_expand(h: Tensor, call: LoraCall, out: Tensor) -> None:
    """``out[t, n_i : n_i + N_i] += B_i @ h[t, c_i : c_i + r_i]`` for every module ``i`` of the token's adapter in the group, in place.

    h as ``lora_shrink`` of the same call returned it · out [T, sum(N_i)], contiguous, the base's output; rows of the base are not touched.
    Bytes: the matrices of each distinct adapter once, and 2·T·sum(N_i)·itemsize. Flops: 2·N·r a token and module.
    """
    require(out.dim() == 2 and out.is_contiguous(), "lora_expand", "out must be [T, N], contiguous")
    require(out.shape[1] == call.out_columns, "lora_expand", "out must be as wide as the group's outputs together")
    require(out.dtype == call.batch.arena.dtype, "lora_expand", "out and the arena must have one dtype")
    match implementation(out, h, call.batch.arena):
        case "reference":
            lora_expand_reference(h, call, out)
        case "triton":
            lora_expand_triton(h, call, out)
        case "cpu":
            require(h is call.batch.plan.scratch, "lora_expand", "h must be what lora_shrink of this batch returned")
            for wave in call.batch.plan.expand[call.group][call.layer]:
                wave.run(out)


def lora_expand_reference(h: Tensor, call: LoraCall, out: Tensor) -> None:
    """Plain torch; the gradient path (``out`` may then not be a leaf)."""
    for start, rows, slot in call.batch.segments.runs:
        column, out_column = 0, 0
        for matrix, width in zip(call.matrices("b", slot), call.out_features, strict=True):
            rank = matrix.shape[0]
            delta = h[start : start + rows, column : column + rank] @ matrix
            out[start : start + rows, out_column : out_column + width] += delta.to(out.dtype)
            column, out_column = column + rank, out_column + width


def lora_expand_triton(h: Tensor, call: LoraCall, out: Tensor) -> None:
    """Launch one program a segment, tile of output columns and module."""
    batch, tables = call.batch, call.batch.tables
    widths = (*call.out_features, 0, 0)[:3]
    num_segments = batch.segments.start.shape[0]
    if num_segments:
        block_n = 64 if out.dtype == torch.float32 else 128
        lora_expand_kernel[(num_segments, triton.cdiv(max(widths), block_n), len(call.modules))](
            h,
            batch.arena,
            tables.b_blocks,
            tables.ranks,
            batch.segments.start,
            batch.segments.rows,
            batch.segments.slot,
            out,
            tables.ranks.stride(0),
            call.layer,
            tables.b_blocks.shape[3],
            h.stride(0),
            N0=widths[0],
            N1=widths[1],
            N2=widths[2],
            FIRST=call.modules.start,
            ALIGN=tables.alignment,
            BLOCK_T=MAX_SEGMENT_ROWS,
            BLOCK_R=BLOCK_RANKS,
            BLOCK_N=block_n,
            num_warps=4,
            num_stages=3,
        )


@triton.jit(do_not_specialize=["stride_slot", "layer", "num_blocks", "stride_h"])
def lora_expand_kernel(  # type: ignore[no-untyped-def]
    p_h,
    p_arena,
    p_b_blocks,
    p_ranks,
    p_start,
    p_rows,
    p_slot,
    p_out,
    stride_slot,
    layer,
    num_blocks,
    stride_h,
    N0: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    FIRST: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Up to 16 rows of one tile of one module's output, over all of the adapter's rank."""
    i_segment, i_tile, i_module = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = tl.load(p_rows + i_segment)
    if rows == 0:
        return
    o_layer = tl.load(p_slot + i_segment).to(tl.int64) * stride_slot + layer * 7 + FIRST
    rank = tl.load(p_ranks + o_layer + i_module)
    width = tl.where(i_module == 0, N0, tl.where(i_module == 1, N1, N2))
    if (rank == 0) | (i_tile * BLOCK_N >= width):
        return
    o_column = 0
    for i_before in range(i_module):
        o_column += tl.load(p_ranks + o_layer + i_before)
    o_out = tl.where(i_module == 0, 0, tl.where(i_module == 1, N0, N0 + N1))
    o_t = tl.load(p_start + i_segment).to(tl.int64) + tl.arange(0, BLOCK_T)
    o_r = tl.arange(0, BLOCK_R)
    o_n = i_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    m_t = tl.arange(0, BLOCK_T) < rows
    m_n = o_n < width
    p_blocks = p_b_blocks + (o_layer + i_module) * num_blocks
    p_h_tile = p_h + o_t[:, None] * stride_h + (o_column + o_r)[None, :]
    b_delta = tl.zeros((BLOCK_T, BLOCK_N), dtype=tl.float32)
    for o_rank in range(0, rank, BLOCK_R):
        m_r = o_rank + o_r < rank
        p_b = p_arena + tl.multiple_of(tl.load(p_blocks + o_rank // BLOCK_R), ALIGN)
        b_h = tl.load(p_h_tile + o_rank, mask=m_t[:, None] & m_r[None, :], other=0.0)  # [BLOCK_T, BLOCK_R]
        b_b = tl.load(p_b + o_r[:, None] * width + o_n[None, :], mask=m_r[:, None] & m_n[None, :], other=0.0)  # [BLOCK_R, BLOCK_N]
        b_delta = tl.dot(b_h.to(b_b.dtype), b_b, b_delta, input_precision="ieee")
    p_out_tile = p_out + o_t[:, None] * (N0 + N1 + N2) + (o_out + o_n)[None, :]
    m_tile = m_t[:, None] & m_n[None, :]
    b_out = tl.load(p_out_tile, mask=m_tile, other=0.0).to(tl.float32)
    tl.store(p_out_tile, (b_out + b_delta).to(p_out.dtype.element_ty), mask=m_tile)
