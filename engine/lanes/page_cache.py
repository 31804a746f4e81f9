"""What the system remembers of a file: forget it, and see whether it is forgotten."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from engine.lanes.results import PageCache


def forget(path: Path) -> PageCache:
    """Drop a file from the page cache, and say what is left of it there."""
    if hasattr(os, "posix_fadvise"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # pages that are not on disk yet cannot be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
    share = resident_share(path)
    return "unknown" if share is None else "dropped" if share == 0 else "warm"


def resident_share(path: Path) -> float | None:
    """Share of a file's pages that are in memory, by ``mincore``; None where that cannot be asked."""
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (AttributeError, OSError, TypeError):
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        num_pages = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * num_pages)()
        start = ctypes.c_char.from_buffer(mapped)
        try:
            failed = mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), found)
        finally:
            del start  # the mapping cannot be closed while somebody points into it
    return None if failed else sum(page & 1 for page in found) / num_pages
