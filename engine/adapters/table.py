"""Slots: where in the arena each leased adapter's matrices lie, as the kernels read it. Owned by the engine thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from kernels.lora_batch import LoraTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from engine.adapters.layout import ImageTable

NUM_MODULES = 7
BLOCK_ROWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDims:
    """What the base and the settings say about adapters."""

    num_layers: int
    max_rank: int
    page_elems: int
    in_features: tuple[int, ...]
    """Input width of each of the 7 modules."""
    out_features: tuple[int, ...]
    """Output width of each of the 7 modules."""


class AdapterTable:
    """``num_slots`` slots of block offsets; a slot is held from an adapter's first lease to its last.

    ``version`` changes with every write, so nothing prepared from an older table is used again. A slot that is given back is
    cleared to "absent": a stale slot number reads no weights at all.
    """

    def __init__(self, dims: TableDims, *, num_slots: int, device: torch.device) -> None:
        num_layers, max_rank, page_elems = dims.num_layers, dims.max_rank, dims.page_elems
        num_blocks = -(-max_rank // BLOCK_ROWS)
        shape = (num_slots, num_layers, NUM_MODULES)
        self._a = np.full((*shape, num_blocks), -1, dtype=np.int64)
        self._b = np.full((*shape, num_blocks), -1, dtype=np.int64)
        self._ranks = np.zeros(shape, dtype=np.int32)
        self._page_elems = page_elems
        self._free = list(range(num_slots - 1, -1, -1))
        self._device = device
        self.version = 0
        self.num_slots = num_slots
        self.tables = LoraTables(
            a_blocks=torch.from_numpy(self._a).to(device),
            b_blocks=torch.from_numpy(self._b).to(device),
            ranks=torch.from_numpy(self._ranks).to(device),
            in_features=dims.in_features,
            out_features=dims.out_features,
        )

    @property
    def num_free(self) -> int:
        """Slots that no adapter holds."""
        return len(self._free)

    def can_install(self) -> bool:
        """Whether a slot is free."""
        return bool(self._free)

    def install(self, image: ImageTable, pages: Sequence[int]) -> int:
        """Point a slot at ``pages`` (arena page of each image page) and return it; may not fail after ``can_install``."""
        slot = self._free.pop()
        moved = [(page - image_page) * self._page_elems for image_page, page in enumerate(pages)]
        by_page = np.array((*moved, 0), dtype=np.int64)  # those absent, at -1, are of page -1, and stay where they are
        a, b = (blocks + by_page[blocks // self._page_elems] for blocks in (image.a_blocks, image.b_blocks))
        self._write(slot, a, b, image.ranks)
        return slot

    def remove(self, slot: int) -> None:
        """Give a slot back, cleared."""
        self._write(slot, -1, -1, 0)
        self._free.append(slot)

    def check(self) -> None:
        """Every free slot is clear and listed once."""
        assert len(set(self._free)) == len(self._free)
        assert not self._ranks[self._free].any()

    def _write(self, slot: int, a: NDArray[np.int64] | int, b: NDArray[np.int64] | int, ranks: NDArray[np.int32] | int) -> None:
        self._a[slot] = self._b[slot] = -1  # an adapter of small rank has fewer blocks than the table has room for
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            self._a[slot, ..., : a.shape[-1]] = a
            self._b[slot, ..., : b.shape[-1]] = b
        self._ranks[slot] = ranks
        if self._device.type != "cpu":
            for host, device in ((self._a, self.tables.a_blocks), (self._b, self.tables.b_blocks), (self._ranks, self.tables.ranks)):
                device[slot].copy_(torch.from_numpy(host[slot]))
        self.version += 1
