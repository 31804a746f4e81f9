"""attention_decode on CPU and in Triton is its reference, whatever lies in the rest of the pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import attention_decode
from kernels.attention_decode import attention_decode_reference, attention_decode_triton
from tests.kernels.compare import assert_near
from tests.kernels.paged import pages_of

IMPLEMENTATIONS = pytest.mark.parametrize("op", [attention_decode, attention_decode_triton], ids=["cpu", "triton"])
# Triton's interpreter multiplies the bits of bf16 as integers.
HALF_PRECISION = pytest.mark.parametrize(
    ("op", "dtype"), [(attention_decode, torch.bfloat16), (attention_decode, torch.float16), (attention_decode_triton, torch.float16)]
)
LENGTHS = {"one": (1,), "page_edges": (15, 16, 17), "with_a_dead_row": (33, 0, 5), "skewed": (70, 3, 4, 5, 2)}


@IMPLEMENTATIONS
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("heads", [(1, 1, 16), (4, 2, 24), (9, 3, 64), (2, 2, 80)])
@pytest.mark.parametrize("window", [None, 7])
def test_matches_reference(op: Callable[..., Tensor], lengths: tuple[int, ...], heads: tuple[int, int, int], window: int | None) -> None:
    """Grouped heads, sliding windows, sizes that are no power of two; NaN beyond each length."""
    num_q, num_kv, size = heads
    paged = pages_of(lengths, num_heads=num_kv, size=size)
    q = torch.randn(len(lengths), num_q + 2 * num_kv, size)[:, :num_q]
    pages = (paged.k_pages, paged.v_pages, paged.page_table, paged.lengths)
    expected = attention_decode_reference(q, *pages, scale=0.3, window=window)
    assert_near(op(q, *pages, max_length=max(lengths) + 3, scale=0.3, window=window), expected)


@IMPLEMENTATIONS
@pytest.mark.parametrize("window", [None, 100, 256, 300])
def test_many_splits(op: Callable[..., Tensor], window: int | None) -> None:
    """Several splits of the keys, some of them outside the window, some sequences with fewer."""
    paged = pages_of((530, 256, 257, 9), num_heads=1, size=16)
    q = torch.randn(4, 2, 16)
    pages = (paged.k_pages, paged.v_pages, paged.page_table, paged.lengths)
    expected = attention_decode_reference(q, *pages, scale=0.5, window=window)
    assert_near(op(q, *pages, max_length=530, scale=0.5, window=window), expected)


def test_many_keys_on_cpu() -> None:
    """Above 256 keys the query heads of a key head are taken as queries."""
    paged = pages_of((300, 290, 0), num_heads=2, size=16)
    q = torch.randn(3, 6, 16)
    pages = (paged.k_pages, paged.v_pages, paged.page_table, paged.lengths)
    assert_near(attention_decode(q, *pages, max_length=300, scale=0.5), attention_decode_reference(q, *pages, scale=0.5))


@HALF_PRECISION
def test_half_precision(op: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """Sums in fp32, rounds at the end; pages of another size."""
    paged = pages_of((21, 8), num_heads=2, size=32, page_tokens=8, dtype=dtype)
    q = torch.randn(2, 4, 32, dtype=dtype)
    pages = (paged.k_pages, paged.v_pages, paged.page_table, paged.lengths)
    assert_near(op(q, *pages, max_length=21, scale=0.2), attention_decode_reference(q, *pages, scale=0.2))


def test_reference_is_softmax_attention() -> None:
    """Equal keys give the mean of the values."""
    pages = torch.zeros(1, 2, 4, 1, 2)
    pages[0, 1, :, 0, 0] = torch.tensor([1.0, 2.0, 6.0, torch.nan])
    out = attention_decode_reference(torch.ones(1, 1, 2), pages[:, 0], pages[:, 1], torch.zeros(1, 1), torch.tensor([3]), scale=1.0)
    assert_near(out, torch.tensor([[[3.0, 0.0]]]))


@pytest.mark.parametrize("max_length", [0, 4])
def test_empty(max_length: int) -> None:
    """No sequence gives nothing; no key gives zeros."""
    paged = pages_of((4,), num_heads=1, size=16)
    pages = (paged.k_pages, paged.v_pages)
    none = attention_decode(torch.randn(0, 1, 16), *pages, paged.page_table[:0], paged.lengths[:0], max_length=max_length, scale=1.0)
    assert none.shape == (0, 1, 16)
    dead = attention_decode(torch.randn(1, 1, 16), *pages, paged.page_table, paged.lengths * 0, max_length=max_length, scale=1.0)
    assert torch.equal(dead, torch.zeros(1, 1, 16))


def test_refuses_a_short_table() -> None:
    """A length that the table cannot hold is named."""
    paged = pages_of((4,), num_heads=1, size=16, spare_pages=0)
    with pytest.raises(ValueError, match="max_length must fit"):
        attention_decode(
            torch.randn(1, 1, 16), paged.k_pages, paged.v_pages, paged.page_table, paged.lengths, max_length=17, scale=1.0
        )  # fmt: skip
