"""Attention of runs of new tokens over the pages of their sequences, cached prefix included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch.nn import functional

from kernels.dispatch import implementation, require, require_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    Bounds = Sequence[tuple[int, int, int]]
    """Host copy, one a sequence: (first query, end query, keys)."""

BLOCK_Q = 64


def attention_prefill(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    starts: Tensor,
    lengths: Tensor,
    *,
    bounds: Bounds,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Causal softmax attention of the queries ``starts[b]`` to ``starts[b+1]`` over the ``lengths[b]`` keys of sequence ``b``.

    Query ``i`` of ``n`` stands at position ``lengths[b] - n + i`` and sees that key and those before it, the last ``window`` of them
    where one is given. q [T, Hq, D], heads contiguous · k_pages, v_pages [N, page_tokens, Hk, D], contiguous inside a page ·
    page_table [B, P] int32 · starts [B+1] int32 · lengths [B] int32 ≥ queries · bounds: the same on the host · → [T, Hq, D].
    What lies beyond a length does not matter.
    Bytes: about 2·sum(lengths)·Hk·D·itemsize for each 64 queries. Flops: up to 4·queries·keys·Hq·D a sequence.
    """
    require_pages(q, k_pages, v_pages, "attention_prefill")
    require(all(end - first <= keys for first, end, keys in bounds), "attention_prefill", "a sequence must have a key for every query")
    if not q.shape[0]:
        return torch.empty_like(q, memory_format=torch.contiguous_format)
    match implementation(q, k_pages, v_pages):
        case "reference":
            return attention_prefill_reference(q, k_pages, v_pages, page_table, bounds=bounds, scale=scale, window=window)
        case "triton":
            return attention_prefill_triton(
                q, k_pages, v_pages, page_table, starts, lengths, bounds=bounds, scale=scale, window=window
            )  # fmt: skip
        case "cpu":
            return _attention_prefill_cpu(q, k_pages, v_pages, page_table, bounds=bounds, scale=scale, window=window)


def attention_prefill_reference(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, *, bounds: Bounds, scale: float, window: int | None = None
) -> Tensor:
    """Plain torch, sequence by sequence; the gradient path."""
    outputs = []
    page_tokens, num_kv_heads = k_pages.shape[1:3]
    grouped = q.view(len(q), num_kv_heads, -1, q.shape[2])  # the query heads of a key head side by side
    for (first, end, num_keys), table in zip(bounds, page_table.long(), strict=True):
        pages = table[: -(-num_keys // page_tokens)]
        keys = k_pages[pages].flatten(0, 1)[:num_keys].float()  # [keys, Hk, D]
        values = v_pages[pages].flatten(0, 1)[:num_keys].float()
        scores = torch.einsum("qhgd,khd->hgqk", grouped[first:end].float(), keys) * scale
        seen = visible(end - first, num_keys, window, q.device)
        weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=3)
        outputs.append(torch.einsum("hgqk,khd->qhgd", weights, values).flatten(1, 2))
    return torch.cat(outputs).to(q.dtype)


def visible(num_queries: int, num_keys: int, window: int | None, device: torch.device) -> Tensor:
    """[queries, keys] bool: which keys each of the last ``num_queries`` positions may see."""
    key = torch.arange(num_keys, device=device)
    position = key[num_keys - num_queries :].unsqueeze(1)
    seen = key <= position
    return seen if window is None else seen & (key > position - window)


def _attention_prefill_cpu(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, *, bounds: Bounds, scale: float, window: int | None
) -> Tensor:
    """Sequence by sequence: gather its pages, then torch's fused attention, causal without a mask where nothing is cached."""
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    page_tokens = k_pages.shape[1]
    for (first, end, num_keys), table in zip(bounds, page_table, strict=True):
        num_queries = end - first
        if not num_queries:
            continue
        pages = table[: -(-num_keys // page_tokens)]
        keys = k_pages.index_select(0, pages).flatten(0, 1)[:num_keys].transpose(0, 1).unsqueeze(0)  # [1, Hk, keys, D]
        values = v_pages.index_select(0, pages).flatten(0, 1)[:num_keys].transpose(0, 1).unsqueeze(0)
        plain = num_queries == num_keys and (window is None or window >= num_keys)
        mask = None if plain else visible(num_queries, num_keys, window, q.device)
        queries = q[first:end].transpose(0, 1).unsqueeze(0)
        attended = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=plain, scale=scale, enable_gqa=True
        )  # fmt: skip
        out[first:end] = attended[0].transpose(0, 1)
    return out


def attention_prefill_triton(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    page_table: Tensor,
    starts: Tensor,
    lengths: Tensor,
    *,
    bounds: Bounds,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Launch one program a sequence, query head and tile of queries."""
    size = q.shape[2]
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    block_q = 16 if q.dtype == torch.float32 else BLOCK_Q
    num_tiles = triton.cdiv(max((end - first for first, end, _ in bounds), default=0), block_q)
    if num_tiles:
        attention_prefill_kernel[(num_tiles, q.shape[1], len(bounds))](
            q, k_pages, v_pages, page_table, starts, lengths, out,
            q.stride(0), k_pages.stride(0), page_table.stride(0), scale,
            HQ=q.shape[1], HK=k_pages.shape[2], D=size, WINDOW=window or 0, PAGE_TOKENS=k_pages.shape[1],
            BLOCK_Q=block_q, BLOCK_S=16 if q.dtype == torch.float32 else 64, BLOCK_D=max(16, triton.next_power_of_2(size)),
            num_warps=4, num_stages=2,
        )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["stride_table", "scale"])
def attention_prefill_kernel(  # type: ignore[no-untyped-def]
    p_q,
    p_k_pages,
    p_v_pages,
    p_page_table,
    p_starts,
    p_lengths,
    p_out,
    stride_q,
    stride_page,
    stride_table,
    scale,
    HQ: tl.constexpr,
    HK: tl.constexpr,
    D: tl.constexpr,
    WINDOW: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One head of one tile of a sequence's queries, over the keys that any of them may see."""
    i_tile, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    start = tl.load(p_starts + i_b)
    num_queries = tl.load(p_starts + i_b + 1) - start
    if i_tile * BLOCK_Q >= num_queries:
        return
    length = tl.load(p_lengths + i_b)
    o_q = i_tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    o_d = tl.arange(0, BLOCK_D)
    m_d = o_d < D
    m_q = (o_q < num_queries)[:, None] & m_d[None, :]
    i_t = (start + o_q).to(tl.int64)
    b_q = tl.load(p_q + i_t[:, None] * stride_q + i_h * D + o_d[None, :], mask=m_q, other=0.0)  # [BLOCK_Q, BLOCK_D]
    o_position = length - num_queries + o_q
    first = tl.maximum(length - num_queries + i_tile * BLOCK_Q - WINDOW + 1, 0) if WINDOW > 0 else 0
    end = tl.minimum(length - num_queries + (i_tile + 1) * BLOCK_Q, length)
    b_sum = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)
    b_peak = tl.full((BLOCK_Q,), -1.0e30, dtype=tl.float32)
    b_weight = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    for o_start in range(first // BLOCK_S * BLOCK_S, end, BLOCK_S):
        o_s = o_start + tl.arange(0, BLOCK_S)
        m_s = (o_s >= first) & (o_s < end)
        i_page = tl.load(p_page_table + i_b * stride_table + o_s // PAGE_TOKENS, mask=m_s, other=0).to(tl.int64)
        o_row = i_page * stride_page + (o_s % PAGE_TOKENS) * (HK * D) + i_h // (HQ // HK) * D  # [BLOCK_S]
        m_kv = m_s[:, None] & m_d[None, :]
        b_k = tl.load(p_k_pages + o_row[:, None] + o_d[None, :], mask=m_kv, other=0.0)  # [BLOCK_S, BLOCK_D]
        m_seen = m_s[None, :] & (o_s[None, :] <= o_position[:, None])
        if WINDOW > 0:
            m_seen = m_seen & (o_s[None, :] > o_position[:, None] - WINDOW)
        b_score = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * scale
        b_score = tl.where(m_seen, b_score, -1.0e30)  # [BLOCK_Q, BLOCK_S]
        b_new = tl.maximum(b_peak, tl.max(b_score, axis=1))
        b_p = tl.where(m_seen, tl.exp(b_score - b_new[:, None]), 0.0)
        b_fade = tl.exp(b_peak - b_new)
        b_v = tl.load(p_v_pages + o_row[:, None] + o_d[None, :], mask=m_kv, other=0.0)
        b_sum = tl.dot(b_p.to(b_v.dtype), b_v, b_sum * b_fade[:, None], input_precision="ieee")
        b_weight = b_weight * b_fade + tl.sum(b_p, axis=1)
        b_peak = b_new
    b_y = b_sum / tl.where(b_weight > 0.0, b_weight, 1.0)[:, None]
    tl.store(p_out + (i_t[:, None] * HQ + i_h) * D + o_d[None, :], b_y.to(p_out.dtype.element_ty), mask=m_q)
