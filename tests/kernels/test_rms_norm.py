"""rms_norm on CPU and in Triton is its reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import rms_norm
from kernels.rms_norm import rms_norm_reference, rms_norm_triton
from tests.kernels.compare import assert_near

IMPLEMENTATIONS = pytest.mark.parametrize("op", [rms_norm, rms_norm_triton], ids=["cpu", "triton"])


@IMPLEMENTATIONS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("num_rows", "size"), [(0, 8), (1, 1), (3, 40), (5, 129), (2, 576)])
@pytest.mark.parametrize("stream", ["alone", "with_residual"])
def test_matches_reference(
    op: Callable[..., tuple[Tensor, Tensor]], dtype: torch.dtype, num_rows: int, size: int, stream: str
) -> None:  # fmt: skip
    """Both values, at odd sizes, from rows that are a view."""
    x = torch.randn(num_rows, size + 3, dtype=dtype)[:, :size]
    weight = torch.randn(size, dtype=dtype)
    residual = torch.randn(num_rows, size, dtype=dtype) if stream == "with_residual" else None
    expected, actual = (f(x, weight, eps=1e-5, residual=residual) for f in (rms_norm_reference, op))
    assert_near(actual[0], expected[0])
    assert_near(actual[1], expected[1])


@IMPLEMENTATIONS
def test_inputs_stay(op: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """The residual stream that went in is still what it was."""
    x, residual, weight = torch.randn(2, 8), torch.randn(2, 8), torch.ones(8)
    before = x.clone(), residual.clone()
    op(x, weight, eps=1e-6, residual=residual)
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])


def test_gradient_takes_the_reference() -> None:
    """A gradient reaches every input."""
    x, residual, weight = (torch.randn(shape, requires_grad=True) for shape in ((3, 8), (3, 8), (8,)))
    with torch.enable_grad():
        y, total = rms_norm(x, weight, eps=1e-5, residual=residual)
        (y.sum() + total.sum()).backward()
    assert all(tensor.grad is not None and tensor.grad.isfinite().all() for tensor in (x, residual, weight))


def test_refuses_a_wrong_weight() -> None:
    """A weight of another size is named."""
    with pytest.raises(ValueError, match="rms_norm: weight must be"):
        rms_norm(torch.zeros(2, 8), torch.zeros(7), eps=1e-5)
