"""attention_prefill on CPU and in Triton is its reference, with and without a cached prefix."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import attention_decode, attention_prefill
from kernels.attention_prefill import attention_prefill_reference, attention_prefill_triton
from tests.kernels.compare import assert_near
from tests.kernels.paged import Paged, pages_of

IMPLEMENTATIONS = pytest.mark.parametrize("op", [attention_prefill, attention_prefill_triton], ids=["cpu", "triton"])
# Triton's interpreter multiplies the bits of bf16 as integers.
HALF_PRECISION = pytest.mark.parametrize(
    ("op", "dtype"), [(attention_prefill, torch.bfloat16), (attention_prefill, torch.float16), (attention_prefill_triton, torch.float16)]
)
# (queries, keys) of each sequence
RAGGED = {
    "whole": ((5, 5), (17, 17)),
    "cached": ((1, 33), (16, 40), (3, 19)),
    "mixed": ((20, 20), (0, 8), (2, 35), (1, 1)),
}  # fmt: skip


def arguments(ragged: tuple[tuple[int, int], ...], paged: Paged) -> tuple[tuple[Tensor, ...], tuple[tuple[int, int, int], ...]]:
    """Tensors after ``q``, and the bounds."""
    ends = torch.tensor([0, *(queries for queries, _ in ragged)], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    edges = ends.tolist()
    bounds = tuple((first, end, keys) for first, end, (_, keys) in zip(edges[:-1], edges[1:], ragged, strict=True))
    return (paged.k_pages, paged.v_pages, paged.page_table, ends, paged.lengths), bounds


def reference(q: Tensor, tensors: tuple[Tensor, ...], **rest: object) -> Tensor:
    """The reference reads the bounds, not the tensors that say the same."""
    return attention_prefill_reference(q, *tensors[:3], **rest)


@IMPLEMENTATIONS
@pytest.mark.parametrize("ragged", RAGGED.values(), ids=RAGGED)
@pytest.mark.parametrize("heads", [(1, 1, 16), (4, 2, 24), (2, 2, 80)])
@pytest.mark.parametrize("window", [None, 6])
def test_matches_reference(
    op: Callable[..., Tensor], ragged: tuple[tuple[int, int], ...], heads: tuple[int, int, int], window: int | None
) -> None:  # fmt: skip
    """Ragged queries, grouped heads, windows; NaN beyond each length."""
    num_q, num_kv, size = heads
    paged = pages_of(tuple(keys for _, keys in ragged), num_heads=num_kv, size=size)
    tensors, bounds = arguments(ragged, paged)
    q = torch.randn(bounds[-1][1], num_q + 2 * num_kv, size)[:, :num_q]
    expected = reference(q, tensors, bounds=bounds, scale=0.3, window=window)
    assert_near(op(q, *tensors, bounds=bounds, scale=0.3, window=window), expected)


@HALF_PRECISION
def test_half_precision(op: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """Sums in fp32, rounds at the end; more than one tile of queries."""
    ragged = ((70, 75),)
    tensors, bounds = arguments(ragged, pages_of((75,), num_heads=1, size=16, dtype=dtype))
    q = torch.randn(70, 2, 16, dtype=dtype)
    assert_near(op(q, *tensors, bounds=bounds, scale=0.2), reference(q, tensors, bounds=bounds, scale=0.2))


def test_last_query_is_decode() -> None:
    """The last query of a prefill sees what a decode at that place sees."""
    paged = pages_of((23,), num_heads=2, size=16)
    tensors, bounds = arguments(((9, 23),), paged)
    q = torch.randn(9, 4, 16)
    whole = attention_prefill(q, *tensors, bounds=bounds, scale=0.4)
    alone = attention_decode(q[8:], paged.k_pages, paged.v_pages, paged.page_table, paged.lengths, max_length=23, scale=0.4)
    assert_near(whole[8:], alone)


@pytest.mark.parametrize("ragged", [(), ((0, 4),)], ids=["no_sequence", "no_query"])
def test_empty(ragged: tuple[tuple[int, int], ...]) -> None:
    """Nothing in, nothing out."""
    tensors, bounds = arguments(ragged, pages_of(tuple(keys for _, keys in ragged), num_heads=1, size=16))
    assert attention_prefill(torch.randn(0, 2, 16), *tensors, bounds=bounds, scale=1.0).shape == (0, 2, 16)


def test_gradient_takes_the_reference() -> None:
    """A gradient reaches the queries."""
    tensors, bounds = arguments(((3, 5),), pages_of((5,), num_heads=1, size=16))
    q = torch.randn(3, 1, 16, requires_grad=True)
    with torch.enable_grad():
        attention_prefill(q, *tensors, bounds=bounds, scale=1.0).sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
    assert q.grad.abs().max() > 0


def test_refuses_queries_without_keys() -> None:
    """More queries than keys are named."""
    tensors, _ = arguments(((3, 2),), pages_of((2,), num_heads=1, size=16))
    with pytest.raises(ValueError, match="a key for every query"):
        attention_prefill(torch.randn(3, 1, 16), *tensors, bounds=((0, 3, 2),), scale=1.0)
