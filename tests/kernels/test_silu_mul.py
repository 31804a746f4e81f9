"""silu_mul on CPU and in Triton is its reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import silu_mul
from kernels.silu_mul import silu_mul_reference, silu_mul_triton
from tests.kernels.compare import assert_near


@pytest.mark.parametrize("op", [silu_mul, silu_mul_triton], ids=["cpu", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("num_rows", "size"), [(0, 8), (1, 1), (3, 37), (2, 1029)])
def test_matches_reference(op: Callable[..., Tensor], dtype: torch.dtype, num_rows: int, size: int) -> None:
    """At odd sizes, and the input stays."""
    gate_up = 3 * torch.randn(num_rows, 2 * size, dtype=dtype)
    before = gate_up.clone()
    assert_near(op(gate_up), silu_mul_reference(gate_up))
    assert torch.equal(gate_up, before)


def test_gradient_takes_the_reference() -> None:
    """At zero, silu has the slope one half."""
    gate_up = torch.tensor([[0.0, 4.0]], requires_grad=True)
    with torch.enable_grad():
        silu_mul(gate_up).sum().backward()
    assert gate_up.grad is not None
    assert_near(gate_up.grad, torch.tensor([[2.0, 0.0]]))
