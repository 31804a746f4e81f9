"""Rotary position embedding, half-split as Llama has it, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.cpu_loop import CpuLoop, floats, longs, share
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
    if q.dtype != torch.float32:
        rope_reference(q, k, cos, sin, positions)
        return
    num_tokens, num_heads, size = q.shape
    if k.data_ptr() == q.data_ptr() + num_heads * size * q.itemsize and k.stride(0) == q.stride(0):
        num_heads += k.shape[1]
    else:
        rope_loop(k.numel(), *rope_arguments(k, cos, sin, positions, num_heads=k.shape[1]))
    rope_loop(num_tokens * num_heads * size, *rope_arguments(q, cos, sin, positions, num_heads=num_heads))


def rope_arguments(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, *, num_heads: int) -> tuple[int, ...]:
    """Of the loop: ``num_heads`` from where ``x`` begins, which may be more than its own."""
    addresses = (x.data_ptr(), cos.data_ptr(), sin.data_ptr(), positions.data_ptr())
    return (*addresses, x.stride(0), x.shape[0], num_heads, x.shape[2] // 2)


@CpuLoop
def rope_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of tokens."""
    x, cos, sin, positions = floats(a[0]), floats(a[1]), floats(a[2]), longs(a[3])
    stride, num_tokens, num_heads, half = a[4], a[5], a[6], a[7]
    begin, end = share(num_tokens)
    for token in range(begin, end):
        angle = positions[token] * half
        for head in range(num_heads):
            first = token * stride + head * 2 * half
            second = first + half
            for d in range(half):
                turned = x[first + d] * cos[angle + d] - x[second + d] * sin[angle + d]
                x[second + d] = x[second + d] * cos[angle + d] + x[first + d] * sin[angle + d]
                x[first + d] = turned


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
