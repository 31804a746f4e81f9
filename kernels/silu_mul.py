"""The gate of the MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernels.cpu_loop import CpuLoop, exp, f32, floats, share
from kernels.dispatch import implementation, require

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_M = 1024


def silu_mul(gate_up: Tensor) -> Tensor:
    """``silu(gate) · up`` for ``gate_up = [gate | up]``.

    gate_up [T, 2M] with contiguous rows → [T, M], the same dtype. Bytes: 3·T·M·itemsize. Flops: 5·T·M.
    """
    require(gate_up.dim() == 2 and gate_up.shape[1] % 2 == 0, "silu_mul", "gate_up must be [T, 2M]")
    require(gate_up.stride(1) == 1, "silu_mul", "rows must be contiguous")
    match implementation(gate_up):
        case "reference":
            return silu_mul_reference(gate_up)
        case "triton":
            return silu_mul_triton(gate_up)
        case "cpu":
            return _silu_mul_cpu(gate_up)


def silu_mul_reference(gate_up: Tensor) -> Tensor:
    """Plain torch; the gradient path."""
    gate, up = gate_up.float().chunk(2, dim=1)
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)


def _silu_mul_cpu(gate_up: Tensor) -> Tensor:
    if gate_up.dtype != torch.float32:
        return silu_mul_reference(gate_up)
    out = gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)
    silu_mul_loop(out.numel(), *silu_mul_arguments(gate_up, out))
    return out


def silu_mul_arguments(gate_up: Tensor, out: Tensor) -> tuple[int, ...]:
    """Of the loop."""
    return (gate_up.data_ptr(), out.data_ptr(), gate_up.stride(0), *out.shape)


@CpuLoop
def silu_mul_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of rows."""
    gate_up, out, stride, num_rows, size = floats(a[0]), floats(a[1]), a[2], a[3], a[4]
    first, end = share(num_rows)
    for row in range(first, end):
        o_gate, o_up, o_out = row * stride, row * stride + size, row * size
        for m in range(size):
            gate = gate_up[o_gate + m]
            out[o_out + m] = gate / (f32(1.0) + exp(-gate)) * gate_up[o_up + m]


def silu_mul_triton(gate_up: Tensor) -> Tensor:
    """Launch one program a row and tile."""
    num_rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty(num_rows, size)
    if num_rows:
        grid = (num_rows, triton.cdiv(size, BLOCK_M))
        silu_mul_kernel[grid](gate_up, out, gate_up.stride(0), M=size, BLOCK_M=BLOCK_M, num_warps=4)
    return out


@triton.jit
def silu_mul_kernel(p_gate_up, p_out, stride_gate_up, M: tl.constexpr, BLOCK_M: tl.constexpr):  # type: ignore[no-untyped-def]
    """One tile of one row."""
    i_t = tl.program_id(0).to(tl.int64)
    o_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    m_m = o_m < M
    p_row = p_gate_up + i_t * stride_gate_up
    b_gate = tl.load(p_row + o_m, mask=m_m, other=0.0).to(tl.float32)  # [BLOCK_M]
    b_up = tl.load(p_row + M + o_m, mask=m_m, other=0.0).to(tl.float32)
    b_y = b_gate / (1.0 + tl.exp(-b_gate)) * b_up
    tl.store(p_out + i_t * M + o_m, b_y.to(p_out.dtype.element_ty), mask=m_m)
