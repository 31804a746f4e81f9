"""Page images: every block whole in one page, nothing overlaps, nothing is lost, little is wasted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.adapters.layout import ALIGN_ELEMS, BLOCK_ROWS, Layout, Strip, lay_out
from engine.models.spec import MODULES
from tests.engine.adapters.bench import PAGE_ELEMS, deltas_in_pages, packed, parse, rows_in_pages
from tests.tiny import TINY, AdapterRecipe, write_adapter

SMOLLM2 = dict(zip(MODULES, [(576, 576), (576, 192), (576, 192), (576, 576), (576, 1536), (576, 1536), (1536, 576)], strict=True))
SMOLLM2_PAGE_ELEMS = 184_320
TINY_DIMS = {module: TINY.module_dims(module) for module in MODULES}


def strips_of(ranks: dict[tuple[int, int], int], dims: dict[str, tuple[int, int]]) -> tuple[Strip, ...]:
    """A and B of each (layer, module)."""
    return tuple(
        Strip(half=half, layer=layer, module=module, rows=rank, width=dims[MODULES[module]][half == "b"])
        for (layer, module), rank in ranks.items()
        for half in ("a", "b")
    )


def uniform(rank: int, modules: tuple[int, ...], layers: int = 30) -> dict[tuple[int, int], int]:
    """One rank everywhere."""
    return {(layer, module): rank for layer in range(layers) for module in modules}


def spans(layout: Layout, strips: tuple[Strip, ...]) -> list[tuple[int, int]]:
    """(start, end) of every block, in image order."""
    found = []
    for strip in strips:
        blocks = layout.table.a_blocks if strip.half == "a" else layout.table.b_blocks
        for block, first in enumerate(range(0, strip.rows, BLOCK_ROWS)):
            start = int(blocks[strip.layer, strip.module, block])
            found.append((start, start + min(BLOCK_ROWS, strip.rows - first) * strip.width))
    return sorted(found)


def waste(strips: tuple[Strip, ...], page_elems: int) -> tuple[int, int]:
    """(elements used, elements of its pages)."""
    layout = lay_out(strips, num_layers=30, page_elems=page_elems)
    return sum(strip.rows * strip.width for strip in strips), layout.num_pages * page_elems


RANKS = st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 6)), st.integers(1, 70), min_size=1)


@settings(max_examples=150, deadline=None)
@given(ranks=RANKS, page_elems=st.sampled_from([1536, 2048, 3000, 16_384]))
def test_every_block_lies_in_one_page_and_none_overlap(ranks: dict[tuple[int, int], int], page_elems: int) -> None:
    """For any ranks on any modules, and pages that hold one block to all."""
    strips = strips_of(ranks, TINY_DIMS)
    layout = lay_out(strips, num_layers=2, page_elems=page_elems)
    placed = spans(layout, strips)
    assert all(start // page_elems == (end - 1) // page_elems for start, end in placed)
    assert all(end <= following for (_, end), (following, _) in pairwise(placed))
    assert 0 <= placed[0][0] < placed[-1][1] <= layout.num_pages * page_elems
    assert {start // page_elems for start, _ in placed} == set(range(layout.num_pages))
    present = {
        (int(layer), int(module)): int(layout.table.ranks[layer, module])
        for layer, module in zip(*layout.table.ranks.nonzero(), strict=True)
    }
    assert present == ranks


@settings(max_examples=60, deadline=None)
@given(ranks=RANKS)
def test_a_matrix_that_fits_a_page_is_one_aligned_run(ranks: dict[tuple[int, int], int]) -> None:
    """Its blocks follow each other, so that it can be read as one matrix; widths that are no power of two do not shift the next."""
    strips = strips_of(ranks, dict.fromkeys(MODULES, (80, 44)))
    table = lay_out(strips, num_layers=2, page_elems=PAGE_ELEMS).table
    for strip in strips:
        if strip.rows * strip.width <= PAGE_ELEMS:
            blocks = (table.a_blocks if strip.half == "a" else table.b_blocks)[strip.layer, strip.module]
            used = blocks[: -(-strip.rows // BLOCK_ROWS)]
            assert (np.diff(used) == BLOCK_ROWS * strip.width).all()
            assert used[0] % PAGE_ELEMS % ALIGN_ELEMS == 0
            assert (blocks[len(used) :] == -1).all()


@pytest.mark.parametrize(
    ("rank", "modules", "pages"),
    [(8, (0, 2), 3), (16, tuple(range(7)), 27), (32, (0, 2), 10), (64, tuple(range(7)), 108)],
)
def test_pages_of_the_bench_adapters(rank: int, modules: tuple[int, ...], pages: int) -> None:
    """On the demo base: 2.5, 26.5, 10 and 106 pages of weights."""
    assert waste(strips_of(uniform(rank, modules), SMOLLM2), SMOLLM2_PAGE_ELEMS)[1] == pages * SMOLLM2_PAGE_ELEMS


def test_the_bench_mix_wastes_little() -> None:
    """Ranks 8 and 32 on q and v, 16 and 64 on all seven: under 5 % of their pages is empty."""
    mixes = [(8, (0, 2)), (16, tuple(range(7))), (32, (0, 2)), (64, tuple(range(7)))]
    used, whole = np.sum([waste(strips_of(uniform(rank, modules), SMOLLM2), SMOLLM2_PAGE_ELEMS) for rank, modules in mixes], axis=0)
    assert 1 - used / whole < 0.05


def test_q_k_v_lie_side_by_side() -> None:
    """A of q, k and v of a layer form one matrix when that costs no page, so that one product serves the three."""
    table = lay_out(strips_of(uniform(16, (0, 1, 2)), SMOLLM2), num_layers=30, page_elems=SMOLLM2_PAGE_ELEMS).table
    assert (np.diff(table.a_blocks[:, :3, 0], axis=1) == 16 * 576).all()


def test_a_page_that_cannot_hold_a_block_is_our_bug() -> None:
    """16 rows of the widest matrix are the least a page may hold."""
    with pytest.raises(ValueError, match="cannot hold 16 rows of 96"):
        lay_out(strips_of({(0, 6): 16}, TINY_DIMS), num_layers=2, page_elems=1024)


@pytest.mark.parametrize("page_elems", [1536, 2048, 10_000])
def test_pages_hold_what_the_file_held(tmp_path: Path, page_elems: int) -> None:
    """A as stored, B transposed times the scale, bit for bit, in fp32; every element outside the blocks is zero."""
    recipe = AdapterRecipe(rank=24, alpha=12, modules=MODULES, rank_pattern={"0.self_attn.k_proj": 3, "mlp.up_proj": 61})
    folder = write_adapter(tmp_path, recipe)
    image = packed(folder, page_elems=page_elems)
    rest = image.pages.clone().view(-1)
    for matrix in parse(folder).matrices:
        for half, rows in (("a", matrix.a), ("b", matrix.b.T * matrix.scale)):
            assert torch.equal(rows_in_pages(image, half, matrix.layer, matrix.module, rows.shape[1]), rows)
            strip = Strip(
                half="a" if half == "a" else "b", layer=matrix.layer, module=matrix.module, rows=rows.shape[0], width=rows.shape[1]
            )
            for start, end in spans(Layout(table=image.table, num_pages=image.num_pages), (strip,)):
                rest[start:end] = 0
    assert not rest.any()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 1.2e-2)])
def test_a_smaller_serving_dtype_rounds_once(tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    """Relative to the largest value: a product of two rounded factors errs by two units in the last place at most."""
    folder = write_adapter(tmp_path, AdapterRecipe(modules=MODULES))
    exact, rounded = deltas_in_pages(packed(folder)), deltas_in_pages(packed(folder, dtype=dtype))
    for name, delta in exact.items():
        assert (delta - rounded[name]).abs().max() < tolerance * delta.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_may_be_half_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    """fp16 and bf16 files are read exactly."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 - the other tests read numpy

    path = write_adapter(tmp_path) / "adapter_model.safetensors"
    half = {key: value.to(dtype) for key, value in load_file(path).items()}
    save_file(half, path)
    matrix = parse(tmp_path).matrices[0]
    assert torch.equal(matrix.a, half[matrix.a_name])
    assert torch.equal(rows_in_pages(packed(tmp_path), "a", 0, 0, 64), half[matrix.a_name].float())
