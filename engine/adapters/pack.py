"""A parsed adapter → page images: the bytes that lie in the arena, so that a load is a plain copy of whole pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from engine.adapters.image import AdapterImage, Drafts
from engine.adapters.layout import BLOCK_ROWS, ImageTable, Strip, lay_out
from engine.adapters.matrices import Matrix
from engine.adapters.peft import ParsedAdapter
from engine.adapters.refusal import refusal, shown
from engine.ids import AdapterId

__all__ = ["AdapterImage", "ImageTable", "PackedAdapter", "pack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedAdapter:
    """Page images [num_pages, page_elems] in the serving dtype, unused elements zero, and where the blocks lie.

    A is stored [rank, in], B transposed [rank, out] with the scale folded in.
    """

    id: AdapterId
    table: ImageTable
    pages: Tensor

    @property
    def num_pages(self) -> int:
        """Pages on the device while it is resident."""
        return self.pages.shape[0]

    def write_image(self, path: Path) -> None:
        """Store it whole or not at all; the file is on disk when this returns."""
        AdapterImage.write(path, self.pages, adapter=self.id, table=self.table)

    def draft(self, drafts: Drafts, path: Path) -> None:
        """Have it stored there together with others."""
        drafts.add(path, self.pages, adapter=self.id, table=self.table)


def pack(parsed: ParsedAdapter, *, page_elems: int, dtype: torch.dtype) -> PackedAdapter:
    """Cast, fold the scale and lay out. Raises AdapterRefused (``dtype_overflow``) when a value does not fit the dtype."""
    values = {strip: rows for matrix in parsed.matrices for strip, rows in _strips(matrix, dtype)}
    layout = lay_out(tuple(values), num_layers=parsed.num_layers, page_elems=page_elems)
    image = torch.zeros(layout.num_pages * page_elems, dtype=dtype)
    for strip, rows in values.items():
        blocks = layout.table.a_blocks if strip.half == "a" else layout.table.b_blocks
        for block, part in enumerate(rows.split_with_sizes(_block_rows(strip.rows))):
            start = int(blocks[strip.layer, strip.module, block])
            image[start : start + part.numel()] = part.reshape(-1)
    return PackedAdapter(id=parsed.id, table=layout.table, pages=image.view(layout.num_pages, page_elems))


def _strips(matrix: Matrix, dtype: torch.dtype) -> tuple[tuple[Strip, Tensor], tuple[Strip, Tensor]]:
    """A and the scaled, transposed B, each [rank, width] in the serving dtype."""
    a = _fitting(matrix.a.to(dtype), matrix.a_name)
    b = _fitting((matrix.b.t().float() * matrix.scale).to(dtype), matrix.b_name)
    return _strip("a", matrix, a), _strip("b", matrix, b)


def _strip(half: Literal["a", "b"], matrix: Matrix, rows: Tensor) -> tuple[Strip, Tensor]:
    return Strip(half=half, layer=matrix.layer, module=matrix.module, rows=rows.shape[0], width=rows.shape[1]), rows


def _fitting(values: Tensor, name: str) -> Tensor:
    """The values, or a refusal: they were finite as stored."""
    if not torch.isfinite(values).all():
        count = int((~torch.isfinite(values)).sum())
        dtype = str(values.dtype).removeprefix("torch.")
        message = f"{count} values of {shown(name)}, times the scale, are too large for {dtype}, which this base is served in."
        raise refusal("dtype_overflow", message, param=name, expected=dtype, found=count)
    return values


def _block_rows(rows: int) -> list[int]:
    """Rows of each block: 16, and the rest in the last."""
    return [min(BLOCK_ROWS, rows - first) for first in range(0, rows, BLOCK_ROWS)]
