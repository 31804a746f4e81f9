"""The arena's views lie where the page layout says."""

from __future__ import annotations

import pytest
import torch

from engine.memory.arena import Arena, runs
from engine.memory.layout import PageLayout, page_layout

LAYOUT = page_layout(num_layers=2, num_kv_heads=2, head_dim=3, itemsize=4, widest=5)


def filled_arena(num_pages: int = 6) -> Arena:
    """Every element holds its own index."""
    arena = Arena(LAYOUT, num_pages=num_pages, dtype=torch.float32)
    arena.flat.copy_(torch.arange(arena.flat.numel()))
    return arena


def test_a_page_is_a_multiple_of_256_bytes() -> None:
    """2 · 2 layers · 16 tokens · 6 elements · 4 bytes = 1536; with odd sizes it is rounded up."""
    assert LAYOUT.page_bytes == 1536
    odd = PageLayout(num_layers=1, page_tokens=16, num_kv_heads=1, head_dim=3, itemsize=4)
    assert (odd.kv_elems * 4, odd.page_bytes, odd.page_elems) == (384, 512, 128)


@pytest.mark.parametrize(("widest", "page_tokens"), [(5, 16), (24, 16), (25, 32), (48, 32), (49, 64)])
def test_a_page_holds_sixteen_rows_of_the_widest_matrix(widest: int, page_tokens: int) -> None:
    """The page's tokens double until it does: 24 elements a token here."""
    layout = page_layout(num_layers=2, num_kv_heads=2, head_dim=3, itemsize=4, widest=widest)
    assert layout.page_tokens == page_tokens
    assert layout.page_elems >= 16 * widest


def test_views_are_the_layout() -> None:
    """[2, layers, page_tokens, heads, head_dim] inside each page, and a page's stride from one to the next."""
    arena = filled_arena()
    pages = arena.pages[:, : LAYOUT.kv_elems].view(6, 2, 2, LAYOUT.page_tokens, 2, 3)
    for layer in range(2):
        assert torch.equal(arena.k_pages(layer), pages[:, 0, layer])
        assert torch.equal(arena.v_pages(layer), pages[:, 1, layer])
        assert arena.k_pages(layer).stride(0) == LAYOUT.page_elems
        assert arena.k_pages(layer).data_ptr() != arena.v_pages(layer).data_ptr()


def test_zero_clears_those_pages_only() -> None:
    """Neighbours keep every element."""
    arena = filled_arena()
    before = arena.pages.clone()
    arena.zero([1, 2, 4])
    assert not arena.pages[[1, 2, 4]].any()
    assert torch.equal(arena.pages[[0, 3, 5]], before[[0, 3, 5]])
    arena.zero([])


def test_write_overwrites_whole_pages_in_order() -> None:
    """Image row i lies in page ``pages[i]``, whatever the order of ids."""
    arena = filled_arena()
    before = arena.pages.clone()
    image = -torch.rand(4, LAYOUT.page_elems)
    arena.write([4, 5, 1, 0], image)
    assert torch.equal(arena.pages[[4, 5, 1, 0]], image)
    assert torch.equal(arena.pages[[2, 3]], before[[2, 3]])


def test_write_refuses_another_number_of_pages() -> None:
    """A short image would leave a former owner's bytes."""
    with pytest.raises(AssertionError, match="image"):
        filled_arena().write([0, 1], torch.zeros(1, LAYOUT.page_elems))


def test_a_fresh_arena_is_zero() -> None:
    """Pages never written need no wipe."""
    assert not Arena(LAYOUT, num_pages=2, dtype=torch.float32).flat.any()


def test_runs_join_neighbours() -> None:
    """Only ascending ids that follow one another share a copy."""
    assert list(runs([3, 4, 5, 9, 2, 1])) == [(0, 3), (3, 4), (4, 5), (5, 6)]
    assert list(runs([])) == []
