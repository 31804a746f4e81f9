"""A slot says where in the arena each block of an adapter lies, and nothing once it is given back."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.adapters.layout import ImageTable
from engine.adapters.table import AdapterTable, TableDims

PAGE_ELEMS, PAGES = 8, 3
DIMS = TableDims(num_layers=2, max_rank=32, page_elems=PAGE_ELEMS, in_features=(16,) * 7, out_features=(16,) * 7)


@given(
    seed=st.integers(0, 2**32), pages=st.lists(st.integers(0, 50), min_size=PAGES, max_size=PAGES, unique=True), blocks=st.integers(1, 2)
)
def test_blocks_are_where_their_pages_are(seed: int, pages: list[int], blocks: int) -> None:
    """The block at an element of the image is at that element of the arena page that holds the image's page; absent ones stay so."""
    chance = random.Random(seed)
    places = [[[[chance.randrange(-1, PAGES * PAGE_ELEMS) for _ in range(blocks)] for _ in range(7)] for _ in range(2)] for _ in "ab"]
    image = ImageTable(ranks=np.full((2, 7), 16, dtype=np.int32), a_blocks=np.array(places[0]), b_blocks=np.array(places[1]))
    table = AdapterTable(DIMS, num_slots=2, device=torch.device("cpu"))
    slot = table.install(image, pages)
    for found, wanted in ((table.tables.a_blocks[slot], places[0]), (table.tables.b_blocks[slot], places[1])):
        for layer in range(2):
            for module in range(7):
                at = [
                    place if place < 0 else pages[place // PAGE_ELEMS] * PAGE_ELEMS + place % PAGE_ELEMS for place in wanted[layer][module]
                ]
                assert found[layer, module].tolist() == at + [-1] * (2 - blocks)
    table.remove(slot)
    assert (table.tables.a_blocks[slot] == -1).all()
    assert not table.tables.ranks[slot].any()
    table.check()
