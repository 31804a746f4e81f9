"""Where each matrix of an adapter lies in its page images: first-fit-decreasing over whole matrices. Pure numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.models.spec import MODULES

BLOCK_ROWS = 16
"""Rank rows of a block: what a kernel reads as one contiguous run."""
ALIGN_ELEMS = 32
"""Matrices begin at a multiple of this: 64 bytes in 2-byte types, 128 in fp32."""
TOGETHER = (((0, 1, 2), (4, 5)), ((4, 5),), ())
"""Modules that read the same input (q k v, gate up) and whose A matrices are best kept together, so that one product serves all:
three choices, most together first. One that costs a page is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One matrix to place: ``rows`` rank rows of ``width`` elements each."""

    half: Literal["a", "b"]
    """``a`` [rank, in] or ``b`` [rank, out]."""
    layer: int
    module: int
    rows: int
    width: int

    @property
    def elems(self) -> int:
        """Elements, up to the next matrix's start."""
        return aligned(self.rows * self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """Where each block of 16 rank rows lies, in elements from the start of the image: page number · page_elems + place in the page.

    Blocks are int64 [layers, 7, blocks of this adapter's largest rank], -1 for absent; ranks int32 [layers, 7], 0 for absent.
    """

    ranks: NDArray[np.int32]
    a_blocks: NDArray[np.int64]
    b_blocks: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table and how many pages it spans."""

    table: ImageTable
    num_pages: int


def lay_out(strips: Sequence[Strip], *, num_layers: int, page_elems: int) -> Layout:
    """Place every matrix: whole if it fits in a page, else cut by blocks of rank rows. No block crosses a page.

    Raises ValueError when a page cannot hold one block.
    """
    choices = [_place(_bundles(strips, groups, page_elems), page_elems) for groups in TOGETHER]
    places = min(choices, key=lambda places: _num_pages(places, page_elems))
    return Layout(table=_table(strips, places, num_layers), num_pages=_num_pages(places, page_elems))


def aligned(elems: int) -> int:
    """Up to the next possible start of a matrix."""
    return -(-elems // ALIGN_ELEMS) * ALIGN_ELEMS


Piece = tuple[Strip, int, int]
"""A strip, its first block, its number of blocks."""
Places = dict[tuple[str, int, int, int], int]
"""(half, layer, module, block) → element offset in the image."""


def _bundles(strips: Sequence[Strip], groups: Iterable[tuple[int, ...]], page_elems: int) -> list[list[Strip]]:
    """The A matrices of a group of one layer in one bundle when they fit a page together; every other matrix by itself."""
    bundles: dict[tuple[object, ...], list[Strip]] = {}
    for strip in strips:
        group = next((group for group in groups if strip.half == "a" and strip.module in group), None)
        bundles.setdefault((strip.half, strip.layer, group or strip.module), []).append(strip)
    split = ([bundle] if _fits(bundle, page_elems) else [[strip] for strip in bundle] for bundle in bundles.values())
    return list(chain.from_iterable(split))


def _fits(bundle: list[Strip], page_elems: int) -> bool:
    return sum(strip.elems for strip in bundle) <= page_elems


def _place(bundles: Iterable[list[Strip]], page_elems: int) -> Places:
    """First-fit-decreasing: the largest first, each into the first page with room; equal sizes in the order given."""
    runs = [run for bundle in bundles for run in _runs(bundle, page_elems)]
    runs.sort(key=_elems, reverse=True)
    filled: list[int] = []
    places: Places = {}
    for run in runs:
        need = _elems(run)
        page = next((index for index, used in enumerate(filled) if used + need <= page_elems), len(filled))
        if page == len(filled):
            filled.append(0)
        _put(run, page * page_elems + filled[page], places)
        filled[page] += need
    return places


def _runs(bundle: list[Strip], page_elems: int) -> list[list[Piece]]:
    """The bundle as one run; a matrix larger than a page as its blocks, which fill the gaps that others leave."""
    whole = [(strip, 0, -(-strip.rows // BLOCK_ROWS)) for strip in bundle]
    if _elems(whole) <= page_elems:
        return [whole]
    strip, _, num_blocks = whole[0]
    if aligned(BLOCK_ROWS * strip.width) > page_elems:
        message = f"a page of {page_elems} elements cannot hold {BLOCK_ROWS} rows of {strip.width}"
        raise ValueError(message)
    return [[(strip, block, 1)] for block in range(num_blocks)]


def _elems(run: list[Piece]) -> int:
    return sum(aligned(_rows(piece) * piece[0].width) for piece in run)


def _rows(piece: Piece) -> int:
    strip, first, count = piece
    return min(strip.rows, (first + count) * BLOCK_ROWS) - first * BLOCK_ROWS


def _put(run: list[Piece], offset: int, places: Places) -> None:
    """Blocks of a piece follow each other without a gap; so do the pieces of a run, up to alignment."""
    for piece in run:
        strip, first, count = piece
        for block in range(count):
            places[strip.half, strip.layer, strip.module, first + block] = offset + block * BLOCK_ROWS * strip.width
        offset += aligned(_rows(piece) * strip.width)


def _num_pages(places: Places, page_elems: int) -> int:
    return max(offset // page_elems for offset in places.values()) + 1


def _table(strips: Sequence[Strip], places: Places, num_layers: int) -> ImageTable:
    num_blocks = max(-(-strip.rows // BLOCK_ROWS) for strip in strips)
    shape = (num_layers, len(MODULES), num_blocks)
    blocks = {"a": np.full(shape, -1, dtype=np.int64), "b": np.full(shape, -1, dtype=np.int64)}
    ranks = np.zeros(shape[:2], dtype=np.int32)
    for (half, layer, module, block), offset in places.items():
        blocks[half][layer, module, block] = offset
    for strip in strips:
        ranks[strip.layer, strip.module] = strip.rows
    return ImageTable(ranks=ranks, a_blocks=blocks["a"], b_blocks=blocks["b"])
