"""Keys and values in shuffled pages of an arena whose every other element is NaN."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged:
    """One layer's pages and who owns which."""

    k_pages: Tensor
    v_pages: Tensor
    page_table: Tensor
    lengths: Tensor


def pages_of(
    lengths: tuple[int, ...], *, num_heads: int, size: int, page_tokens: int = 16, dtype: torch.dtype = torch.float32, spare_pages: int = 1
) -> Paged:
    """Random keys up to each length; what lies beyond, the spare columns of the table included, is NaN."""
    counts = [-(-length // page_tokens) for length in lengths]
    order = torch.randperm(sum(counts) + 1)
    page_elems = 2 * 2 * page_tokens * num_heads * size + 64  # two layers, and rounding up
    arena = torch.full((len(order), page_elems), torch.nan, dtype=dtype)
    layer = page_tokens * num_heads * size
    shape = (page_tokens, num_heads, size)
    k_pages = arena[:, layer : 2 * layer].unflatten(1, shape)
    v_pages = arena[:, 3 * layer : 4 * layer].unflatten(1, shape)
    table = order[-1].repeat(len(lengths), max(counts, default=0) + spare_pages).to(torch.int32)
    for b, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        owned = order[sum(counts[:b]) : sum(counts[:b]) + count]
        table[b, :count] = owned
        for i in range(length):
            k_pages[owned[i // page_tokens], i % page_tokens] = torch.randn(num_heads, size).to(dtype)
            v_pages[owned[i // page_tokens], i % page_tokens] = torch.randn(num_heads, size).to(dtype)
    return Paged(k_pages=k_pages, v_pages=v_pages, page_table=table, lengths=torch.tensor(lengths, dtype=torch.int32))
