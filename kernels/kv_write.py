"""New keys and values into their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.cpu_loop import CpuLoop, floats, longs, share
from kernels.dispatch import implementation, require

if TYPE_CHECKING:
    from torch import Tensor


def kv_write(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, kv_slots: Tensor) -> None:
    """Store each token's key and value at ``page = slot // page_tokens``, ``offset = slot % page_tokens``, in place.

    k, v [T, Hk, D], heads contiguous · k_pages, v_pages [num_pages, page_tokens, Hk, D], contiguous inside a page · kv_slots [T] int64,
    distinct; a negative slot (a padding row of a captured graph) stores nothing. Bytes: 4·T·Hk·D·itemsize. No flops.
    """
    require(k.shape == v.shape and k.dim() == 3, "kv_write", "k and v must be [T, heads, D]")
    require(k_pages.shape == v_pages.shape and k_pages.shape[2:] == k.shape[1:], "kv_write", "pages must be [N, page_tokens, heads, D]")
    require(k_pages.stride() == v_pages.stride(), "kv_write", "k_pages and v_pages must be views of one arena")
    match implementation(k, v):
        case "reference":
            kv_write_reference(k, v, k_pages, v_pages, kv_slots)
        case "triton":
            kv_write_triton(k, v, k_pages, v_pages, kv_slots)
        case "cpu":
            _kv_write_cpu(k, v, k_pages, v_pages, kv_slots)


def kv_write_reference(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, kv_slots: Tensor) -> None:
    """Plain torch; the gradient path."""
    kept = kv_slots >= 0
    page_tokens = k_pages.shape[1]
    pages, offsets = kv_slots[kept] // page_tokens, kv_slots[kept] % page_tokens
    k_pages[pages, offsets] = k[kept]
    v_pages[pages, offsets] = v[kept]


def _kv_write_cpu(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, kv_slots: Tensor) -> None:
    if k.dtype != torch.float32:
        kv_write_reference(k, v, k_pages, v_pages, kv_slots)
        return
    kv_write_loop(2 * k.numel(), *kv_write_arguments(k, v, k_pages, v_pages, kv_slots))


def kv_write_arguments(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, kv_slots: Tensor) -> tuple[int, ...]:
    """Of the loop."""
    num_tokens, num_heads, size = k.shape
    addresses = (k.data_ptr(), v.data_ptr(), k_pages.data_ptr(), v_pages.data_ptr(), kv_slots.data_ptr())
    strides = (k.stride(0), v.stride(0), k_pages.stride(0))
    return (*addresses, *strides, num_tokens, k_pages.shape[1], num_heads * size)


@CpuLoop
def kv_write_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of tokens."""
    k, v, k_pages, v_pages, kv_slots = floats(a[0]), floats(a[1]), floats(a[2]), floats(a[3]), longs(a[4])
    stride_k, stride_v, stride_page, num_tokens, page_tokens, row = a[5], a[6], a[7], a[8], a[9], a[10]
    first, end = share(num_tokens)
    for token in range(first, end):
        slot = kv_slots[token]
        if slot >= 0:
            o_page = slot // page_tokens * stride_page + slot % page_tokens * row
            for d in range(row):
                k_pages[o_page + d] = k[token * stride_k + d]
            for d in range(row):
                v_pages[o_page + d] = v[token * stride_v + d]


def kv_write_triton(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, kv_slots: Tensor) -> None:
    """Launch one program a token."""
    num_tokens, num_heads, size = k.shape
    if num_tokens:
        kv_write_kernel[(num_tokens,)](
            k,
            v,
            k_pages,
            v_pages,
            kv_slots,
            k.stride(0),
            v.stride(0),
            k_pages.stride(0),
            PAGE_TOKENS=k_pages.shape[1],
            ROW=num_heads * size,
            BLOCK_ROW=triton.next_power_of_2(num_heads * size),
            num_warps=4,
        )


@triton.jit
def kv_write_kernel(  # type: ignore[no-untyped-def]
    p_k,
    p_v,
    p_k_pages,
    p_v_pages,
    p_kv_slots,
    stride_k,
    stride_v,
    stride_page,
    PAGE_TOKENS: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK_ROW: tl.constexpr,
):
    """All heads of one token."""
    i_t = tl.program_id(0).to(tl.int64)
    slot = tl.load(p_kv_slots + i_t).to(tl.int64)
    if slot < 0:
        return
    o_row = tl.arange(0, BLOCK_ROW)
    m_row = o_row < ROW
    o_page = (slot // PAGE_TOKENS) * stride_page + (slot % PAGE_TOKENS) * ROW
    b_k = tl.load(p_k + i_t * stride_k + o_row, mask=m_row, other=0.0)  # [BLOCK_ROW]
    b_v = tl.load(p_v + i_t * stride_v + o_row, mask=m_row, other=0.0)
    tl.store(p_k_pages + o_page + o_row, b_k, mask=m_row)
    tl.store(p_v_pages + o_page + o_row, b_v, mask=m_row)
