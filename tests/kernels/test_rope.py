"""rope on CPU and in Triton is its reference, and rotates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import rope
from kernels.rope import rope_reference, rope_triton
from tests.kernels.compare import assert_near

IMPLEMENTATIONS = pytest.mark.parametrize("op", [rope, rope_triton], ids=["cpu", "triton"])


def heads_of(qkv: Tensor, num_q: int, num_k: int, size: int) -> tuple[Tensor, Tensor]:
    """Queries and keys as views of one qkv tensor."""
    heads = qkv.view(len(qkv), num_q + 2 * num_k, size)
    return heads[:, :num_q], heads[:, num_q : num_q + num_k]


def angles(size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of 50 positions."""
    table = torch.outer(torch.arange(50.0), 100.0 ** -torch.linspace(0, 1, size // 2))
    return table.cos(), table.sin()


@IMPLEMENTATIONS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("num_tokens", "num_q", "num_k", "size"), [(0, 2, 1, 16), (1, 1, 1, 16), (5, 9, 3, 24), (3, 4, 2, 80)])
@pytest.mark.parametrize("side_by_side", [True, False])
def test_matches_reference(  # noqa: PLR0917 - one case
    op: Callable[..., None], dtype: torch.dtype, num_tokens: int, num_q: int, num_k: int, size: int, side_by_side: bool  # noqa: FBT001
) -> None:  # fmt: skip
    """In place, whether the heads share one tensor or not; the values beside them stay."""
    qkv = torch.randn(num_tokens, (num_q + 2 * num_k) * size, dtype=dtype)
    other = torch.randn(num_tokens, num_k, size, dtype=dtype)
    positions = torch.randint(0, 50, (num_tokens,))
    results = []
    for f in (rope_reference, op):
        tensor, apart = qkv.clone(), other.clone()
        q, k = heads_of(tensor, num_q, num_k, size)
        f(q, k if side_by_side else apart, *angles(size), positions)
        results.append((tensor, apart))
    assert_near(results[1][0], results[0][0])
    assert_near(results[1][1], results[0][1])


@IMPLEMENTATIONS
def test_products_depend_on_distance(op: Callable[..., None]) -> None:
    """The product of a query and a key is the same wherever both stand, as long as they are as far apart."""
    q, k = torch.randn(1, 1, 16).expand(2, 1, 16).clone(), torch.randn(1, 1, 16).expand(2, 1, 16).clone()
    op(q, torch.empty(2, 0, 16), *angles(16), torch.tensor([7, 30]))
    op(k, torch.empty(2, 0, 16), *angles(16), torch.tensor([3, 26]))
    products = (q * k).sum(dim=2).flatten()
    assert_near(products[1:], products[:1])


def test_gradient_takes_the_reference() -> None:
    """A rotation keeps lengths: the gradient of a sum of squares is twice the input."""
    qkv = torch.randn(3, 4 * 16, requires_grad=True)
    with torch.enable_grad():
        rotated = qkv.clone()
        rope(*heads_of(rotated, 2, 1, 16), *angles(16), torch.arange(3))
        rotated.square().sum().backward()
    assert qkv.grad is not None
    assert_near(qkv.grad, 2 * qkv)
