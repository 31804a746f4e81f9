"""New keys and values into their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

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
    """The reference in numpy: a third of the time of torch's indexed store at one token a sequence."""
    slots = kv_slots.numpy()
    if k.dtype == torch.bfloat16:  # numpy has no such type; the bits are what is stored
        k, v, k_pages, v_pages = (tensor.view(torch.int16) for tensor in (k, v, k_pages, v_pages))
    k_rows, v_rows = k.numpy(), v.numpy()
    if slots.min(initial=0) < 0:
        kept = slots >= 0
        slots, k_rows, v_rows = slots[kept], k_rows[kept], v_rows[kept]
    pages = slots // k_pages.shape[1]
    offsets = slots - pages * k_pages.shape[1]
    k_pages.numpy()[pages, offsets] = k_rows
    v_pages.numpy()[pages, offsets] = v_rows


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
