"""The CPU decode path that works out pages and sizes once a step."""

from __future__ import annotations

import pytest
import torch

from kernels.attention_decode import attention_decode, attention_decode_reference
from kernels.decode_cpu import MOST_KEYS, DecodePlan, DecodeScratch, can_plan
from kernels.grouped_gemm import batched_sgemm

SIZES = ((16, 9, 3, 64, 7, 100), (5, 4, 2, 16, 3, 40), (3, 8, 8, 32, 2, 17), (1, 4, 1, 16, 1, 1))
needs_mkl = pytest.mark.skipif(batched_sgemm() is None, reason="this torch carries no MKL")


def case(sizes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Pages in a mixed order, lengths from 1 to ``longest``, and queries that are a view of a fused projection."""
    num_sequences, num_q, num_kv, size, num_pages, longest = sizes
    torch.manual_seed(num_sequences)
    pages = torch.randperm(num_sequences * num_pages + 3)[: num_sequences * num_pages].view(num_sequences, num_pages).int()
    lengths = torch.randint(1, longest + 1, (num_sequences,), dtype=torch.int32)
    lengths[0] = longest
    kv = torch.randn(num_sequences * num_pages + 3, 2, 16, num_kv, size)
    qkv = torch.randn(num_sequences, (num_q + 2 * num_kv) * size)
    q = qkv[:, : num_q * size].unflatten(1, (num_q, size))
    return {"q": q, "k": kv[:, 0], "v": kv[:, 1], "pages": pages, "lengths": lengths}


@needs_mkl
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_reference(sizes: tuple[int, ...]) -> None:
    """The planned path gives the reference's answer, with buffers left over from another step and NaN beyond every length."""
    given = case(sizes)
    scratch = DecodeScratch()
    for name, count in (("keys", 10**5), ("values", 10**5), ("scores", 10**5), ("weights", 10**5)):
        scratch.take(name, count).fill_(torch.nan)
    heads = (sizes[1], sizes[2], sizes[3])
    plan = DecodePlan(given["pages"], given["lengths"], page_tokens=16, heads=heads, scratch=scratch)
    expected = attention_decode_reference(given["q"], given["k"], given["v"], given["pages"], given["lengths"], scale=0.2)
    for sequence, length in enumerate(given["lengths"].tolist()):
        for at in range(length, given["pages"].shape[1] * 16):
            given["k"][given["pages"][sequence, at // 16], at % 16] = torch.nan
            given["v"][given["pages"][sequence, at // 16], at % 16] = torch.nan
    most = int(given["lengths"].max())
    found = attention_decode(given["q"], given["k"], given["v"], given["pages"], given["lengths"], max_length=most, scale=0.2, plan=plan)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)  # a hundred fp32 terms in another order


@needs_mkl
def test_a_row_does_not_depend_on_the_batch() -> None:
    """A sequence alone gives what it gives beside others, to rounding."""
    given = case(SIZES[0])
    heads = SIZES[0][1:4]

    def attend(rows: slice) -> torch.Tensor:
        plan = DecodePlan(given["pages"][rows], given["lengths"][rows], page_tokens=16, heads=heads, scratch=DecodeScratch())
        return plan.attend(given["q"][rows], given["k"], given["v"], scale=0.125)

    torch.testing.assert_close(attend(slice(4, 5)), attend(slice(0, 16))[4:5], rtol=0, atol=2e-6)


def test_what_it_leaves_to_the_other_path() -> None:
    """Other dtypes, no rows and very many keys are not planned."""
    lengths = torch.tensor([5], dtype=torch.int32)
    assert not can_plan(lengths, torch.bfloat16)
    assert not can_plan(lengths[:0], torch.float32)
    assert not can_plan(torch.tensor([MOST_KEYS + 1], dtype=torch.int32), torch.float32)
