"""The file of a packed adapter: one header padded to 4096 bytes, then the raw pages, so that a load is one read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from engine.adapters.layout import ImageTable
from engine.adapters.refusal import refusal
from engine.errors import AdapterRefused
from engine.ids import AdapterId

MAGIC = b"loradeck image 1\n"
DIGEST_BYTES = 32
PREFIX_BYTES = len(MAGIC) + DIGEST_BYTES + 8
"""Magic, digest of what follows in the header, number of header bytes."""
HEADER_ALIGN = 4096
MAX_HEADER_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterImage:
    """An image on disk, its header read and its pages not. A damaged file raises AdapterRefused (``image_damaged``)."""

    path: Path
    id: AdapterId
    table: ImageTable
    num_pages: int
    page_elems: int
    dtype: torch.dtype
    pages_digest: bytes
    header_bytes: int

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return self.page_elems * self.dtype.itemsize

    @property
    def pages_bytes(self) -> int:
        """Bytes that ``read_into`` fills."""
        return self.num_pages * self.page_bytes

    @classmethod
    def write(cls, path: Path, pages: Tensor, *, adapter: AdapterId, table: ImageTable) -> None:
        """Write beside, flush to disk, rename: readers see the whole file or none. ``pages`` is [num_pages, page_elems]."""
        with Drafts(path.parent) as drafts:
            drafts.add(path, pages, adapter=adapter, table=table)

    @classmethod
    def copy(cls, source: Path, path: Path, *, adapter: AdapterId) -> None:
        """Write another's pages, proven, as those of ``adapter``. Raises AdapterRefused or OSError."""
        image = cls.open(source)
        pages = torch.empty((image.num_pages, image.page_elems), dtype=image.dtype)
        buffer = pages.view(-1).view(torch.uint8).numpy().data
        image.read_into(buffer)
        image.verify(buffer)
        cls.write(path, pages, adapter=adapter, table=image.table)

    @classmethod
    def open(cls, path: Path) -> AdapterImage:
        """Read and prove the header; the file's size must be what it says."""
        with FileIO(path) as file:
            prefix = file.read(PREFIX_BYTES)
            header_bytes = int.from_bytes(prefix[-8:], "little")
            if not prefix.startswith(MAGIC) or len(prefix) < PREFIX_BYTES or not PREFIX_BYTES < header_bytes <= MAX_HEADER_BYTES:
                raise _damaged(path, "its header is not one of ours")
            text = file.read(header_bytes - PREFIX_BYTES)
            if _digest(text) != prefix[len(MAGIC) : len(MAGIC) + DIGEST_BYTES]:
                raise _damaged(path, "its header does not match its digest")
            image = _read_header(path, text, header_bytes)
            if os.fstat(file.fileno()).st_size != header_bytes + image.pages_bytes:
                raise _damaged(path, "it is not as long as its header says")
        return image

    def read_into(self, buffer: memoryview) -> None:
        """Fill ``buffer``, which has ``pages_bytes`` bytes, with the pages."""
        with FileIO(self.path) as file:
            file.seek(self.header_bytes)
            filled = 0
            while filled < self.pages_bytes:
                count = file.readinto(buffer[filled:])
                if not count:
                    raise _damaged(self.path, "it is not as long as its header says")
                filled += count

    def verify(self, buffer: memoryview) -> None:
        """Prove that ``buffer`` holds the pages that were written."""
        if _digest(buffer) != self.pages_digest:
            raise _damaged(self.path, "its pages do not match their digest")


class Drafts:
    """Images of one folder that are written together, flushed together, and only then put in their places."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: list[tuple[FileIO, Path, Path]] = []
        """Open file, where it is, where it goes."""

    def __enter__(self) -> Self:
        return self

    def add(self, path: Path, pages: Tensor, *, adapter: AdapterId, table: ImageTable) -> None:
        """Write one beside its place. ``pages`` is [num_pages, page_elems]."""
        data = _bytes_of(pages)
        header = _header(pages, table, adapter=adapter, pages_digest=_digest(data))
        handle, beside = tempfile.mkstemp(dir=self._folder, prefix=f".{path.name}.")
        file = FileIO(handle, "wb")
        self._written.append((file, Path(beside), path))
        for part in (header, data):
            _write_all(file, part)

    def __exit__(self, fault: object, *_: object) -> None:
        """All are on disk when this returns."""
        try:
            if fault is None:
                for file, _beside, _path in self._written:
                    os.fsync(file.fileno())
                for _file, beside, path in self._written:
                    beside.replace(path)
                if self._written:
                    _flush_folder(self._folder)
        finally:
            for file, beside, _path in self._written:
                file.close()
                with contextlib.suppress(OSError):
                    beside.unlink()


def _header(pages: Tensor, table: ImageTable, *, adapter: AdapterId, pages_digest: bytes) -> bytes:
    """Prefix and JSON, padded with spaces."""
    fields = {
        "id": adapter,
        "dtype": str(pages.dtype).removeprefix("torch."),
        "num_pages": pages.shape[0],
        "page_elems": pages.shape[1],
        "pages_sha256": pages_digest.hex(),
        "ranks": table.ranks.tolist(),
        "a_blocks": table.a_blocks.tolist(),
        "b_blocks": table.b_blocks.tolist(),
    }
    text = json.dumps(fields, separators=(",", ":")).encode()
    header_bytes = -(-(PREFIX_BYTES + len(text)) // HEADER_ALIGN) * HEADER_ALIGN
    padded = text.ljust(header_bytes - PREFIX_BYTES)
    return MAGIC + _digest(padded) + header_bytes.to_bytes(8, "little") + padded


def _read_header(path: Path, text: bytes, header_bytes: int) -> AdapterImage:
    """The fields of a header whose digest was right: ours, so trusted."""
    fields = json.loads(text)
    return AdapterImage(
        path=path,
        id=AdapterId(fields["id"]),
        table=ImageTable(
            ranks=np.array(fields["ranks"], dtype=np.int32),
            a_blocks=np.array(fields["a_blocks"], dtype=np.int64),
            b_blocks=np.array(fields["b_blocks"], dtype=np.int64),
        ),
        num_pages=fields["num_pages"],
        page_elems=fields["page_elems"],
        dtype=getattr(torch, fields["dtype"]),
        pages_digest=bytes.fromhex(fields["pages_sha256"]),
        header_bytes=header_bytes,
    )


def _bytes_of(pages: Tensor) -> memoryview:
    return pages.contiguous().view(-1).view(torch.uint8).numpy().data


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _write_all(file: FileIO, data: bytes | memoryview) -> None:
    """A single write may take less than all."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _flush_folder(folder: Path) -> None:
    """Make the rename last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, why: str) -> AdapterRefused:
    message = f"The stored image of {path.stem} is damaged: {why}. Register the adapter again."
    return refusal("image_damaged", message, param=path.name)
