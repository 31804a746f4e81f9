"""Root-mean-square norm, with the residual addition that comes before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl

from kernels.cpu_loop import CpuLoop, f32, float_bits, float_from, floats, share
from kernels.dispatch import implementation, require

if TYPE_CHECKING:
    from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, *, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """``s = x + residual`` (or ``x``), ``y = s / sqrt(mean(s²) + eps) · weight``; returns ``(y, s)``, both new unless ``s`` is ``x``.

    x, residual [T, D] · weight [D], one dtype; sums in fp32. Bytes: 4·T·D·itemsize with a residual, 2·T·D without. Flops: 5·T·D.
    """
    require(x.dim() == 2 and x.stride(1) == 1, "rms_norm", "x must be [T, D] with contiguous rows")
    require(weight.shape == x.shape[1:], "rms_norm", "weight must be [D]")
    require(residual is None or residual.shape == x.shape, "rms_norm", "residual must have the shape of x")
    match implementation(x, weight, x if residual is None else residual):
        case "reference":
            return rms_norm_reference(x, weight, eps=eps, residual=residual)
        case "triton":
            return rms_norm_triton(x, weight, eps=eps, residual=residual)
        case "cpu":
            return _rms_norm_cpu(x, weight, eps=eps, residual=residual)


def rms_norm_reference(x: Tensor, weight: Tensor, *, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Plain torch; the gradient path."""
    total = x if residual is None else x + residual
    wide = total.float()
    scale = torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype), total


def _rms_norm_cpu(x: Tensor, weight: Tensor, *, eps: float, residual: Tensor | None) -> tuple[Tensor, Tensor]:
    """One pass a row for the sum, one for the product, which finds the row in the cache."""
    if x.dtype != torch.float32 or (residual is not None and residual.stride(1) != 1):
        return rms_norm_reference(x, weight, eps=eps, residual=residual)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    total = x if residual is None else torch.empty_like(y)
    rms_norm_loop(x.numel(), *rms_norm_arguments(x, residual, weight, y, total, eps=eps))
    return y, total


def rms_norm_arguments(x: Tensor, residual: Tensor | None, weight: Tensor, y: Tensor, total: Tensor, *, eps: float) -> tuple[int, ...]:
    """Of the loop; ``total`` is ``x`` without a residual and must not be the residual."""
    added, stride_added = (0, 0) if residual is None else (residual.data_ptr(), residual.stride(0))
    strides = (x.stride(0), stride_added, total.stride(0))
    return (x.data_ptr(), added, weight.data_ptr(), y.data_ptr(), total.data_ptr(), *strides, *x.shape, float_bits(eps))


@CpuLoop
def rms_norm_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of rows."""
    x, residual, weight, y, total = floats(a[0]), floats(a[1]), floats(a[2]), floats(a[3]), floats(a[4])
    stride_x, stride_residual, stride_total, num_rows, size, eps = a[5], a[6], a[7], a[8], a[9], float_from(a[10])
    first, end = share(num_rows)
    for row in range(first, end):
        o_x, o_residual, o_total, o_y = row * stride_x, row * stride_residual, row * stride_total, row * size
        squares = f32(0.0)
        if a[1] != 0:
            for d in range(size):
                value = x[o_x + d] + residual[o_residual + d]
                total[o_total + d] = value
                squares += value * value
        else:
            for d in range(size):
                squares += x[o_x + d] * x[o_x + d]
        scale = f32(1.0) / np.sqrt(squares / f32(size) + eps)
        for d in range(size):
            y[o_y + d] = total[o_total + d] * scale * weight[d]


def rms_norm_triton(x: Tensor, weight: Tensor, *, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Launch one program a row."""
    num_rows, size = x.shape
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    total = x if residual is None else torch.empty_like(y)
    if num_rows:
        block = triton.next_power_of_2(size)
        rms_norm_kernel[(num_rows,)](
            x,
            x if residual is None else residual,
            weight,
            y,
            total,
            x.stride(0),
            0 if residual is None else residual.stride(0),
            D=size,
            EPS=eps,
            HAS_RESIDUAL=residual is not None,
            BLOCK_D=block,
            num_warps=max(1, min(8, block // 512)),
        )
    return y, total


@triton.jit
def rms_norm_kernel(  # type: ignore[no-untyped-def]
    p_x,
    p_residual,
    p_weight,
    p_y,
    p_total,
    stride_x,
    stride_residual,
    D: tl.constexpr,
    EPS: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One row; its squares are summed in fp32."""
    i_t = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, BLOCK_D)
    m_d = o_d < D
    b_x = tl.load(p_x + i_t * stride_x + o_d, mask=m_d, other=0.0)  # [BLOCK_D]
    if HAS_RESIDUAL:
        b_residual = tl.load(p_residual + i_t * stride_residual + o_d, mask=m_d, other=0.0)
        b_x = (b_x.to(tl.float32) + b_residual.to(tl.float32)).to(p_total.dtype.element_ty)
        tl.store(p_total + i_t * D + o_d, b_x, mask=m_d)
    b_wide = b_x.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(b_wide * b_wide, axis=0) / D + EPS)
    b_weight = tl.load(p_weight + o_d, mask=m_d, other=0.0).to(tl.float32)
    tl.store(p_y + i_t * D + o_d, (b_wide * scale * b_weight).to(p_y.dtype.element_ty), mask=m_d)
