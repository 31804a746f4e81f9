"""Loader threads: read, verify and copy adapters off the engine thread, and report through its inbox."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.errors import AdapterRefused, EngineFault, LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.adapters.entry import HostCopy
    from engine.adapters.image import AdapterImage
    from engine.adapters.tiers import DiskTier
    from engine.clock import Clock
    from engine.ids import AdapterId

LOADER_NICE = 10
"""Added niceness of a loader thread (Linux: per thread), so that a step keeps its cores."""

log = logging.getLogger("loradeck.loader")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDone:
    """An image came from disk, or did not. Times are clock seconds."""

    adapter: AdapterId
    copy: HostCopy | None
    error: LoradeckError | None
    started_s: float
    read_s: float
    """When the bytes were in memory."""
    verified_s: float
    fetched_s: float | None = None
    """When the image had come from its origin; None when it lay on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDone:
    """An adapter's pages are in the arena, or could not be copied."""

    adapter: AdapterId
    started_s: float
    copied_s: float
    error: LoradeckError | None = None


Job = tuple["Callable[[], ReadDone | CopyDone]", "Callable[[LoradeckError, float], ReadDone | CopyDone]"]
"""The work, and what to report when it fails: (error, clock seconds)."""


class Loader:
    """A few threads over one queue. ``report`` must be safe to call from any thread."""

    def __init__(
        self, *, disk: DiskTier, arena: torch.Tensor, num_threads: int, clock: Clock, report: Callable[[ReadDone | CopyDone], None]
    ) -> None:
        self._disk = disk
        self._arena = arena
        self._clock = clock
        self._report = report
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stream = torch.cuda.Stream() if arena.is_cuda else None  # type: ignore[no-untyped-call]
        self._threads = [threading.Thread(target=self._work, name=f"loader-{i}", daemon=True) for i in range(num_threads)]
        for thread in self._threads:
            thread.start()

    @property
    def num_queued(self) -> int:
        """Jobs that no thread has taken yet."""
        return self._jobs.qsize()

    def read(self, adapter: AdapterId) -> None:
        """Bring an image from disk to host memory; ends in a ``ReadDone``."""
        self._jobs.put(
            (
                lambda: self._read(adapter),
                lambda error, at_s: ReadDone(adapter=adapter, copy=None, error=error, started_s=at_s, read_s=at_s, verified_s=at_s),
            )
        )

    def copy(self, adapter: AdapterId, source: HostCopy, pages: Sequence[int]) -> None:
        """Copy page images into arena ``pages``, which the caller owns; ends in a ``CopyDone``."""
        self._jobs.put(
            (
                lambda: self._copy(adapter, source, list(pages)),
                lambda error, at_s: CopyDone(adapter=adapter, started_s=at_s, copied_s=at_s, error=error),
            )
        )

    def stop(self) -> None:
        """Finish what is queued and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOADER_NICE)
        while (job := self._jobs.get()) is not None:
            self._do(*job)

    def _do(self, work: Callable[[], ReadDone | CopyDone], failed: Callable[[LoradeckError, float], ReadDone | CopyDone]) -> None:
        """One job; a bug of ours in it fails its load and not the thread."""
        try:
            done = work()
        except Exception:
            log.exception("a load failed")
            done = failed(EngineFault("The engine failed to load this adapter; it is safe to try again."), self._clock.now_s())
        self._report(done)

    def _read(self, adapter: AdapterId) -> ReadDone:
        started_s = self._clock.now_s()
        copy, error = None, None
        read_s = started_s
        fetched_s = None
        try:
            if self._disk.fetch(adapter):
                fetched_s = self._clock.now_s()
            image = self._disk.open(adapter)
            self._check_image(image, adapter)
            copy = self._disk.read(image)
            read_s = self._clock.now_s()
            image.verify(copy.pages.view(-1).numpy().data)
        except LoradeckError as refusal:
            copy, error = None, refusal
            if fetched_s is not None:
                self._disk.path(adapter).unlink(missing_ok=True)  # the next load fetches it anew
        except OSError as fault:
            copy, error = None, LoradeckError(f"The image of {adapter} cannot be read: {fault.strerror}.", code="image_unreadable")
        verified_s = self._clock.now_s()
        return ReadDone(
            adapter=adapter, copy=copy, error=error, started_s=started_s, fetched_s=fetched_s, read_s=read_s, verified_s=verified_s
        )

    def _check_image(self, image: AdapterImage, adapter: AdapterId) -> None:
        """An image is one version's, packed for one page size and dtype, and may come from another machine."""
        if image.id != adapter:
            message = f"The image of {adapter} is that of {image.id}. Register the adapter again."
            raise AdapterRefused(message, code="image_damaged", expected=adapter, found=image.id)
        packed, served = (image.page_elems, image.dtype), (self._arena.shape[1], self._arena.dtype)
        if packed != served:
            message = "The stored image was packed for another device. Register the adapter again."
            raise AdapterRefused(message, code="image_of_another_device", expected=f"{served}", found=f"{packed}")

    def _copy(self, adapter: AdapterId, source: HostCopy, pages: list[int]) -> CopyDone:
        started_s = self._clock.now_s()
        if self._stream is None:
            self._copy_on_host(source, pages)
        else:
            self._copy_on_stream(source, pages, self._stream)
        return CopyDone(adapter=adapter, started_s=started_s, copied_s=self._clock.now_s())

    def _copy_on_host(self, source: HostCopy, pages: list[int]) -> None:
        target = self._arena.view(torch.uint8).numpy()  # [num_pages, page_bytes]
        images = source.pages.numpy()
        for image_page, page in enumerate(pages):
            target[page] = images[image_page]

    def _copy_on_stream(self, source: HostCopy, pages: list[int], stream: torch.cuda.Stream) -> None:
        target = self._arena.view(torch.uint8)
        with torch.cuda.stream(stream):
            for image_page, page in enumerate(pages):
                target[page].copy_(source.pages[image_page], non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(stream)
        done.synchronize()
