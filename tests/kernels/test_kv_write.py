"""kv_write on CPU and in Triton is its reference, and touches nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels import kv_write
from kernels.kv_write import kv_write_reference, kv_write_triton

CASES = {"none": [], "one": [37], "shuffled": [3, 100, 17, 40, 41, 0, 111], "padded": [5, -1, 9, -1]}


@pytest.mark.parametrize("op", [kv_write, kv_write_triton], ids=["cpu", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("slots", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("num_heads", "size"), [(3, 24), (1, 16)])
def test_matches_reference(op: Callable[..., None], dtype: torch.dtype, slots: list[int], num_heads: int, size: int) -> None:
    """Bit for bit, over the whole arena; keys and values are views of a qkv tensor."""
    kv_slots = torch.tensor(slots, dtype=torch.int64)
    qkv = torch.randn(len(slots), 3 * num_heads * size, dtype=dtype).view(len(slots), 3, num_heads, size)
    arena = torch.randn(7, 4, 16, num_heads, size, dtype=dtype)
    expected, actual = arena.clone(), arena.clone()
    kv_write_reference(qkv[:, 1], qkv[:, 2], expected[:, 1], expected[:, 3], kv_slots)
    op(qkv[:, 1], qkv[:, 2], actual[:, 1], actual[:, 3], kv_slots)
    assert torch.equal(actual, expected)


def test_reference_writes_where_it_says() -> None:
    """Slot 37 of pages of 16 is token 5 of page 2."""
    pages = torch.zeros(4, 2, 16, 1, 2)
    kv_write_reference(torch.ones(1, 1, 2), torch.full((1, 1, 2), 2.0), pages[:, 0], pages[:, 1], torch.tensor([37]))
    assert pages[2, 0, 5].tolist() == [[1.0, 1.0]]
    assert pages[2, 1, 5].tolist() == [[2.0, 2.0]]
    assert int((pages != 0).sum()) == 4
