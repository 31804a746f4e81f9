"""Attention of one new token a sequence over its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.attention_loop import attention_decode_arguments, attention_decode_loop
from kernels.dispatch import implementation, require, require_pages

if TYPE_CHECKING:
    from torch import Tensor

SPLIT_KEYS = 256
"""Keys of one program: fixed, so that a sequence is summed in the same order in any batch."""


def attention_decode(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Softmax attention of each query over the first ``lengths[b]`` keys of its pages, the last ``window`` of them where one is given.

    q [B, Hq, D], heads contiguous · k_pages, v_pages [N, page_tokens, Hk, D], contiguous inside a page · page_table [B, P] int32, any valid
    page beyond the length · lengths [B] int32 ≤ max_length ≤ P·page_tokens; 0 gives zeros · → [B, Hq, D]. What lies beyond a length
    (NaN included) does not matter.
    Bytes: 2·sum(lengths)·Hk·D·itemsize. Flops: 4·sum(lengths)·Hq·D.
    """
    require_pages(q, k_pages, v_pages, "attention_decode")
    require(0 <= max_length <= page_table.shape[1] * k_pages.shape[1], "attention_decode", "max_length must fit in the page table")
    if not q.shape[0] or not max_length:
        return torch.zeros_like(q, memory_format=torch.contiguous_format)
    match implementation(q, k_pages, v_pages):
        case "reference":
            return attention_decode_reference(q, k_pages, v_pages, page_table, lengths, scale=scale, window=window)
        case "triton":
            return attention_decode_triton(q, k_pages, v_pages, page_table, lengths, max_length=max_length, scale=scale, window=window)
        case "cpu":
            return _attention_decode_cpu(
                q, k_pages, v_pages, page_table, lengths, max_length=max_length, scale=scale, window=window
            )  # fmt: skip


def attention_decode_reference(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, lengths: Tensor, *, scale: float, window: int | None = None
) -> Tensor:
    """Plain torch, sequence by sequence; the gradient path."""
    outputs = []
    group = q.shape[1] // k_pages.shape[2]
    for query, pages, length in zip(q.float(), page_table.long(), lengths.tolist(), strict=True):
        first = 0 if window is None else max(0, length - window)
        keys = k_pages[pages].flatten(0, 1)[first:length].float().repeat_interleave(group, dim=1)  # [keys, Hq, D]
        values = v_pages[pages].flatten(0, 1)[first:length].float().repeat_interleave(group, dim=1)
        weights = torch.softmax(torch.einsum("hd,khd->hk", query, keys) * scale, dim=1)
        outputs.append(torch.einsum("hk,khd->hd", weights, values))
    return torch.stack(outputs).to(q.dtype) if outputs else torch.zeros_like(q)


def _attention_decode_cpu(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    scale: float,
    window: int | None,
) -> Tensor:
    """Read the pages where they lie; nothing is gathered."""
    if q.dtype != torch.float32:
        return attention_decode_reference(q, k_pages, v_pages, page_table, lengths, scale=scale, window=window)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    scores = q.new_empty(torch.get_num_threads(), q.shape[1] // k_pages.shape[2], max_length)
    work = len(q) * max_length * k_pages.shape[2] * k_pages.shape[3]
    arguments = attention_decode_arguments(q, (k_pages, v_pages), page_table, lengths, out, scores, scale=scale, window=window)
    attention_decode_loop(work, *arguments)
    return out


def attention_decode_triton(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Launch one program a sequence, key head and split of keys, then one a sequence and query head to join the splits."""
    num_sequences, num_q_heads, size = q.shape
    page_tokens, num_kv_heads = k_pages.shape[1:3]
    num_splits = triton.cdiv(max_length, SPLIT_KEYS)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    sums = q.new_empty((num_sequences, num_q_heads, num_splits, size), dtype=torch.float32)
    peaks, weights = q.new_empty((2, num_sequences, num_q_heads, num_splits), dtype=torch.float32)
    block_g = max(16, triton.next_power_of_2(num_q_heads // num_kv_heads))
    block_s = 16 if q.dtype == torch.float32 else 64
    sizes = {
        "HQ": num_q_heads,
        "D": size,
        "WINDOW": window or 0,
        "SPLIT_KEYS": SPLIT_KEYS,
        "BLOCK_D": max(16, triton.next_power_of_2(size)),
    }
    attention_decode_kernel[(num_sequences, num_kv_heads, num_splits)](
        q, k_pages, v_pages, page_table, lengths, sums, peaks, weights,
        q.stride(0), k_pages.stride(0), page_table.stride(0), scale,
        **sizes, HK=num_kv_heads, PAGE_TOKENS=page_tokens, BLOCK_G=block_g, BLOCK_S=block_s,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    attention_decode_join_kernel[(num_sequences, num_q_heads)](sums, peaks, weights, lengths, out, num_splits, **sizes, num_warps=1)
    return out


@triton.jit(do_not_specialize=["stride_table", "scale"])
def attention_decode_kernel(  # type: ignore[no-untyped-def]
    p_q,
    p_k_pages,
    p_v_pages,
    p_page_table,
    p_lengths,
    p_sums,
    p_peaks,
    p_weights,
    stride_q,
    stride_page,
    stride_table,
    scale,
    HQ: tl.constexpr,
    D: tl.constexpr,
    WINDOW: tl.constexpr,
    SPLIT_KEYS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    HK: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_S: tl.constexpr,
):
    """All query heads of one key head over one split of the keys: their sum, peak and weight, unnormalised."""
    i_b, i_h, i_split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    length = tl.load(p_lengths + i_b)
    first = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else 0
    begin = tl.maximum(i_split * SPLIT_KEYS, first // BLOCK_S * BLOCK_S)
    end = tl.minimum(i_split * SPLIT_KEYS + SPLIT_KEYS, length)
    if begin >= end:
        return
    GROUP: tl.constexpr = HQ // HK
    o_g = tl.arange(0, BLOCK_G)
    o_d = tl.arange(0, BLOCK_D)
    m_q = (o_g < GROUP)[:, None] & (o_d < D)[None, :]
    b_q = tl.load(p_q + i_b * stride_q + (i_h * GROUP + o_g)[:, None] * D + o_d[None, :], mask=m_q, other=0.0)  # [BLOCK_G, BLOCK_D]
    b_sum = tl.zeros((BLOCK_G, BLOCK_D), dtype=tl.float32)
    b_peak = tl.full((BLOCK_G,), -1.0e30, dtype=tl.float32)
    b_weight = tl.zeros((BLOCK_G,), dtype=tl.float32)
    for o_start in range(begin, end, BLOCK_S):
        o_s = o_start + tl.arange(0, BLOCK_S)
        m_s = (o_s >= first) & (o_s < end)
        i_page = tl.load(p_page_table + i_b * stride_table + o_s // PAGE_TOKENS, mask=m_s, other=0).to(tl.int64)
        o_row = i_page * stride_page + (o_s % PAGE_TOKENS) * (HK * D) + i_h * D  # [BLOCK_S]
        m_kv = m_s[:, None] & (o_d < D)[None, :]
        b_k = tl.load(p_k_pages + o_row[:, None] + o_d[None, :], mask=m_kv, other=0.0)  # [BLOCK_S, BLOCK_D]
        b_score = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * scale
        b_score = tl.where(m_s[None, :], b_score, -1.0e30)  # [BLOCK_G, BLOCK_S]
        b_new = tl.maximum(b_peak, tl.max(b_score, axis=1))
        b_p = tl.where(m_s[None, :], tl.exp(b_score - b_new[:, None]), 0.0)
        b_fade = tl.exp(b_peak - b_new)
        b_v = tl.load(p_v_pages + o_row[:, None] + o_d[None, :], mask=m_kv, other=0.0)
        b_sum = tl.dot(b_p.to(b_v.dtype), b_v, b_sum * b_fade[:, None], input_precision="ieee")
        b_weight = b_weight * b_fade + tl.sum(b_p, axis=1)
        b_peak = b_new
    o_part = (i_b * HQ + i_h * GROUP + o_g) * tl.num_programs(2) + i_split
    tl.store(p_sums + o_part[:, None] * D + o_d[None, :], b_sum, mask=m_q)
    tl.store(p_peaks + o_part, b_peak, mask=o_g < GROUP)
    tl.store(p_weights + o_part, b_weight, mask=o_g < GROUP)


@triton.jit(do_not_specialize=["num_splits"])
def attention_decode_join_kernel(  # type: ignore[no-untyped-def]
    p_sums,
    p_peaks,
    p_weights,
    p_lengths,
    p_out,
    num_splits,
    HQ: tl.constexpr,
    D: tl.constexpr,
    WINDOW: tl.constexpr,
    SPLIT_KEYS: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One query head: its splits brought to one peak, summed in order, and normalised."""
    i_b, i_h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_d = tl.arange(0, BLOCK_D)
    m_d = o_d < D
    length = tl.load(p_lengths + i_b)
    first = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else 0
    o_head = i_b * HQ + i_h
    b_sum = tl.zeros((BLOCK_D,), dtype=tl.float32)
    peak = -1.0e30
    weight = 0.0
    for i_split in range(first // SPLIT_KEYS, tl.cdiv(length, SPLIT_KEYS)):
        o_part = o_head * num_splits + i_split
        part_peak = tl.load(p_peaks + o_part)
        new = tl.maximum(peak, part_peak)
        fade, part_fade = tl.exp(peak - new), tl.exp(part_peak - new)
        b_sum = b_sum * fade + tl.load(p_sums + o_part * D + o_d, mask=m_d, other=0.0) * part_fade
        weight = weight * fade + tl.load(p_weights + o_part) * part_fade
        peak = new
    b_y = tl.where(length > 0, b_sum / tl.where(length > 0, weight, 1.0), 0.0)
    tl.store(p_out + o_head * D + o_d, b_y.to(p_out.dtype.element_ty), mask=m_d)
