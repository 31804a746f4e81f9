"""What the process asks of torch's libraries and of Python's collector: before they are loaded, and when a thread is done.

Between two parallel regions of a step lie some tens of microseconds. A worker that sleeps then must be woken, which on a virtual machine
can take longer than the gap. libgomp lets workers spin only while no more threads than cores are managed, over all teams of the process, so
every thread that is done with parallel work gives its team back. Weights are streamed whole in every step: in huge pages the processor
walks fewer tables for them.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPIN_COUNT = "2000000"
"""Some milliseconds: longer than any gap within a step, short enough that an idle engine uses no core."""
PAUSE_SOFT = 1
MANY_ROWS = 1000
"""From here on a full garbage collection is worth avoiding: 50,000 adapters make it stop every thread for over half a second."""


def prepare() -> None:
    """Ask for spinning workers, and for weights in huge pages; before torch is imported, where the environment says nothing else."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)


def release_team() -> None:
    """End the calling thread's workers; its next parallel region makes new ones. Nothing happens where torch brings no libgomp."""
    pause = _pause()
    if pause is not None:
        pause(PAUSE_SOFT)


@functools.cache
def _pause() -> Callable[[int], int] | None:
    """``omp_pause_resource_all`` (OpenMP 5.0) of the libgomp that torch has loaded."""
    try:
        found: Callable[[int], int] = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW).omp_pause_resource_all
    except (OSError, AttributeError):
        return None
    return found


@contextmanager
def without_collections() -> Iterator[None]:
    """For a start that makes many lasting objects, which the collector would look at again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_rows(num_rows: int, *, tidy: bool) -> None:
    """What there is now lasts, and later collections pass over it until ``forget_rows``; ``tidy`` collects first, for before serving."""
    if num_rows >= MANY_ROWS:
        if tidy:
            gc.collect()
        gc.freeze()


def forget_rows() -> None:
    """Collections look at everything again."""
    gc.unfreeze()
