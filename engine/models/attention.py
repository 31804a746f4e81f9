"""Attention of one layer over pages: decode rows and prefill rows, each through its own kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from kernels.attention_decode import attention_decode
from kernels.attention_prefill import attention_prefill
from kernels.kv_write import kv_write

if TYPE_CHECKING:
    from torch import Tensor

    from engine.batch import ForwardBatch


class KVPages(Protocol):
    """Where keys and values lie; the arena is one."""

    def k_pages(self, layer: int) -> Tensor:
        """[num_pages, page_tokens, kv_heads, head_dim], a strided view that stays valid as long as the arena."""
        ...

    def v_pages(self, layer: int) -> Tensor:
        """Likewise, the values."""
        ...


def attend(q: Tensor, k: Tensor, v: Tensor, batch: ForwardBatch, pages: tuple[Tensor, Tensor], *, window: int | None) -> Tensor:
    """Store ``k`` and ``v`` [T, Hk, D] in ``pages`` (keys, values), then attend ``q`` [T, Hq, D] to them. Returns [T, Hq, D]."""
    k_pages, v_pages = pages
    kv_write(k, v, k_pages, v_pages, batch.kv_slots)
    scale = q.shape[2] ** -0.5
    decoded = batch.num_decode
    if decoded == len(q):
        return _decode(q, batch, pages, scale, window)
    if not decoded:
        return _prefill(q, batch, pages, scale, window)
    return torch.cat((_decode(q[:decoded], batch, pages, scale, window), _prefill(q[decoded:], batch, pages, scale, window)))


def _decode(q: Tensor, batch: ForwardBatch, pages: tuple[Tensor, Tensor], scale: float, window: int | None) -> Tensor:
    return attention_decode(
        q,
        *pages,
        batch.decode_pages,
        batch.decode_lengths,
        max_length=batch.max_decode_length,
        scale=scale,
        window=window,
    )


def _prefill(q: Tensor, batch: ForwardBatch, pages: tuple[Tensor, Tensor], scale: float, window: int | None) -> Tensor:
    return attention_prefill(
        q,
        *pages,
        batch.prefill_pages,
        batch.prefill_starts,
        batch.prefill_lengths,
        bounds=batch.prefill_bounds,
        scale=scale,
        window=window,
    )
