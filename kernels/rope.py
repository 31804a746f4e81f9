"""Rotary position embedding, half-split as Llama has it, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.dispatch import implementation, require

if TYPE_CHECKING:
    from torch import Tensor


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> None:
    """Rotate the pairs ``(x[i], x[i + D/2])`` of every head of ``q`` and ``k`` by the angle of its token's position, in place.

    q [T, Hq, D] · k [T, Hk, D], heads contiguous, views of one qkv tensor welcome · cos, sin [P, D/2] fp32 · positions [T] int64 in [0, P).
    Bytes: 2·T·(Hq + Hk)·D·itemsize. Flops: 3·T·(Hq + Hk)·D.
    """
    require(q.dim() == 3 and k.dim() == 3 and q.shape[2] == k.shape[2], "rope", "q and k must be [T, heads, D] with one D")
    require(q.stride()[1:] == (q.shape[2], 1) and k.stride()[1:] == (k.shape[2], 1), "rope", "heads must be contiguous")
    require(cos.shape[1] * 2 == q.shape[2] and cos.shape == sin.shape, "rope", "cos and sin must be [P, D/2]")
    match implementation(q, k):
        case "reference":
            rope_reference(q, k, cos, sin, positions)
        case "triton":
            rope_triton(q, k, cos, sin, positions)
        case "cpu":
            _rope_cpu(q, k, cos, sin, positions)


def rope_reference(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> None:
    """Plain torch; the gradient path (``q`` and ``k`` may then not be leaves)."""
    angle_cos, angle_sin = cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)
    for x in (q, k):
        first, second = x.float().clone().chunk(2, dim=-1)
        x.copy_(torch.cat((first * angle_cos - second * angle_sin, second * angle_cos + first * angle_sin), dim=-1))


def _rope_cpu(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> None:
    """Rotate ``q`` and ``k`` together where they lie side by side in one qkv tensor."""
    angle_cos = cos.index_select(0, positions).unsqueeze(1)
    angle_sin = sin.index_select(0, positions).unsqueeze(1)
    num_tokens, num_heads, size = q.shape
    if k.data_ptr() == q.data_ptr() + num_heads * size * q.itemsize and k.stride(0) == q.stride(0):
        _rotate(q.as_strided((num_tokens, num_heads + k.shape[1], size), q.stride()), angle_cos, angle_sin)
    else:
        _rotate(q, angle_cos, angle_sin)
        _rotate(k, angle_cos, angle_sin)


def _rotate(x: Tensor, angle_cos: Tensor, angle_sin: Tensor) -> None:
    if x.dtype != torch.float32:
        wide = x.float()
        _rotate(wide, angle_cos, angle_sin)
        x.copy_(wide)
        return
    first, second = x.chunk(2, dim=-1)
    old = first.clone()
    first.mul_(angle_cos).addcmul_(second, angle_sin, value=-1)
    second.mul_(angle_cos).addcmul_(old, angle_sin)


def rope_triton(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> None:
    """Launch one program a token and head."""
    num_tokens, num_q_heads, size = q.shape
    if num_tokens:
        rope_kernel[(num_tokens, num_q_heads + k.shape[1])](
            q,
            k,
            cos,
            sin,
            positions,
            q.stride(0),
            k.stride(0),
            HQ=num_q_heads,
            HALF=size // 2,
            BLOCK_D=triton.next_power_of_2(size // 2),
            num_warps=1,
        )


@triton.jit
def rope_kernel(  # type: ignore[no-untyped-def]
    p_q,
    p_k,
    p_cos,
    p_sin,
    p_positions,
    stride_q,
    stride_k,
    HQ: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One head of one token, of ``q`` first and then of ``k``."""
    i_t = tl.program_id(0).to(tl.int64)
    i_h = tl.program_id(1)
    o_d = tl.arange(0, BLOCK_D)
    m_d = o_d < HALF
    if i_h < HQ:
        p_x = p_q + i_t * stride_q + i_h * (2 * HALF)
    else:
        p_x = p_k + i_t * stride_k + (i_h - HQ) * (2 * HALF)
    o_row = tl.load(p_positions + i_t).to(tl.int64) * HALF
    b_cos = tl.load(p_cos + o_row + o_d, mask=m_d, other=0.0)  # [BLOCK_D]
    b_sin = tl.load(p_sin + o_row + o_d, mask=m_d, other=0.0)
    b_first = tl.load(p_x + o_d, mask=m_d, other=0.0).to(tl.float32)
    b_second = tl.load(p_x + HALF + o_d, mask=m_d, other=0.0).to(tl.float32)
    tl.store(p_x + o_d, (b_first * b_cos - b_second * b_sin).to(p_x.dtype.element_ty), mask=m_d)
    tl.store(p_x + HALF + o_d, (b_second * b_cos + b_first * b_sin).to(p_x.dtype.element_ty), mask=m_d)
