"""How keys and values lie in a page."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_TOKENS = 16
PAGE_ALIGNMENT_BYTES = 256
BLOCK_ROWS = 16
"""Rank rows of an adapter matrix that must lie together in one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayout:
    """A page as ``[2 (k, v), num_layers, page_tokens, num_kv_heads, head_dim]`` elements, padded to ``page_elems``."""

    num_layers: int
    page_tokens: int
    num_kv_heads: int
    head_dim: int
    itemsize: int
    """Bytes of one element."""

    @property
    def token_elems(self) -> int:
        """Elements of one token's keys in one layer."""
        return self.num_kv_heads * self.head_dim

    @property
    def kv_elems(self) -> int:
        """Elements that hold keys and values."""
        return (
            2  # keys and values
            * self.num_layers
            * self.page_tokens
            * self.token_elems
        )

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, a multiple of 256."""
        return -(-self.kv_elems * self.itemsize // PAGE_ALIGNMENT_BYTES) * PAGE_ALIGNMENT_BYTES

    @property
    def page_elems(self) -> int:
        """Elements of a page, padding included."""
        return self.page_bytes // self.itemsize

    def offset(self, part: int, layer: int) -> int:
        """First element in a page of the keys (``part`` 0) or values (1) of a layer."""
        return (part * self.num_layers + layer) * self.page_tokens * self.token_elems

    def pages_for(self, num_tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-num_tokens // self.page_tokens)


def page_layout(*, num_layers: int, num_kv_heads: int, head_dim: int, itemsize: int, widest: int) -> PageLayout:
    """The smallest page of 16 · 2ⁿ tokens in which 16 rows of the widest adapter matrix (``widest`` columns) fit."""
    page_tokens = PAGE_TOKENS
    while True:
        layout = PageLayout(num_layers=num_layers, page_tokens=page_tokens, num_kv_heads=num_kv_heads, head_dim=head_dim, itemsize=itemsize)
        if layout.page_elems >= BLOCK_ROWS * widest:
            return layout
        page_tokens *= 2
