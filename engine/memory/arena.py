"""The one allocation that holds KV and adapters."""

from __future__ import annotations

import contextlib
import mmap
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from engine.memory.layout import PageLayout


class Arena:
    """``num_pages`` pages of the serving dtype in one flat tensor; it starts zeroed.

    Which page is whose is ``PagePool``'s to say. Loader threads write only pages that an adapter being loaded owns.
    """

    def __init__(self, layout: PageLayout, *, num_pages: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        assert layout.itemsize == dtype.itemsize, f"layout of {layout.itemsize}-byte elements for {dtype}"
        self.layout = layout
        self.num_pages = num_pages
        self.flat: Tensor = zeroed(num_pages * layout.page_elems, dtype, torch.device(device))
        self.pages: Tensor = self.flat.view(num_pages, layout.page_elems)

    @property
    def num_bytes(self) -> int:
        """Bytes of the allocation."""
        return self.num_pages * self.layout.page_bytes

    def k_pages(self, layer: int) -> Tensor:
        """Keys of a layer: a view [num_pages, page_tokens, num_kv_heads, head_dim] with ``stride(0) == page_elems``."""
        return self._kv_view(self.layout.offset(0, layer))

    def v_pages(self, layer: int) -> Tensor:
        """Values of a layer, shaped as ``k_pages``."""
        return self._kv_view(self.layout.offset(1, layer))

    def zero(self, pages: Sequence[int]) -> None:
        """Clear whole pages."""
        for first, end in runs(pages):
            self.pages[pages[first] : pages[first] + end - first].zero_()

    def write(self, pages: Sequence[int], image: Tensor) -> None:
        """Copy ``image`` [len(pages), page_elems] over whole pages, one copy for each run of neighbours."""
        assert image.shape == (len(pages), self.layout.page_elems), f"image {tuple(image.shape)} for {len(pages)} pages"
        for first, end in runs(pages):
            self.pages[pages[first] : pages[first] + end - first].copy_(image[first:end], non_blocking=True)

    def _kv_view(self, offset: int) -> Tensor:
        layout = self.layout
        shape = (self.num_pages, layout.page_tokens, layout.num_kv_heads, layout.head_dim)
        strides = (layout.page_elems, layout.token_elems, layout.head_dim, 1)
        return self.flat.as_strided(shape, strides, offset)


def zeroed(num_elems: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on CPU memory that the system hands out when it is first written, in huge pages where it has them.

    ``torch.zeros`` writes it all at once: seconds, and every byte of the budget, for an arena that may stay mostly empty. Pages of an
    adapter or of keys lie far apart, and each small page of the system would cost a walk of its tables.
    """
    if device.type != "cpu":
        return torch.zeros(num_elems, dtype=dtype, device=device)
    memory = mmap.mmap(-1, max(num_elems * dtype.itemsize, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.from_numpy(np.frombuffer(memory, dtype=np.uint8)[: num_elems * dtype.itemsize]).view(dtype)


def runs(pages: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Index ranges ``[first, end)`` of ``pages`` whose ids follow one another."""
    cuts = [i for i, (before, page) in enumerate(pairwise(pages), start=1) if page != before + 1]
    bounds = [0, *cuts, len(pages)] if pages else []
    return pairwise(bounds)
