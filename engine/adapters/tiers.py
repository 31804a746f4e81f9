"""The two tiers behind the device: host memory under a byte budget, and images on disk."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

import torch

from engine.adapters.archive import sweep_parts
from engine.adapters.entry import HostCopy
from engine.adapters.image import AdapterImage, Drafts
from engine.errors import AdapterRefused
from engine.ids import AdapterId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, KeysView
    from pathlib import Path

    from engine.adapters.origin import HttpOrigin
    from engine.adapters.pack import PackedAdapter

log = logging.getLogger("loradeck.adapters")
NO_ROOM = (
    "%d adapters cannot answer: their images in %s could not be written under the names that they have by now (%s). "
    "Free %d bytes there and start again; until then they are kept as they were."
)


class HostTier:
    """Page images in host memory, least recently used first out. Owned by the engine thread.

    ``may_leave`` says whether a copy may be dropped (not pinned to this tier, not being copied from).
    """

    def __init__(self, *, budget_bytes: int, may_leave: Callable[[AdapterId], bool]) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._may_leave = may_leave
        self._copies: OrderedDict[AdapterId, HostCopy] = OrderedDict()

    def __contains__(self, adapter: object) -> bool:
        return adapter in self._copies

    @property
    def adapters(self) -> KeysView[AdapterId]:
        """Those of which there is a copy."""
        return self._copies.keys()

    def get(self, adapter: AdapterId) -> HostCopy | None:
        """The copy, now the most recently used; None when absent."""
        copy = self._copies.get(adapter)
        if copy is not None:
            self._copies.move_to_end(adapter)
        return copy

    def check_fits(self, nbytes: int) -> None:
        """Refuse what would push out all else, then itself; a budget of 0 keeps nothing and asks nothing. Raises AdapterRefused."""
        if 0 < self.budget_bytes < nbytes:
            message = (
                f"The adapter needs {nbytes} bytes of host memory, and all adapters together may have {self.budget_bytes}. "
                "Start Loradeck with a larger --host-cache, or with --host-cache 0 to keep no copies in host memory."
            )
            raise AdapterRefused(message, code="too_large", param="host_cache", expected=self.budget_bytes, found=nbytes)

    def put(self, adapter: AdapterId, copy: HostCopy) -> None:
        """Keep a copy; ``trim`` brings the tier back under its budget."""
        self.drop(adapter)
        self._copies[adapter] = copy
        self.used_bytes += copy.nbytes

    def trim(self) -> list[AdapterId]:
        """Drop what may leave, oldest use first, until the budget holds; returns who left."""
        left: list[AdapterId] = []
        if self.used_bytes <= self.budget_bytes:
            return left
        for candidate in list(self._copies):
            if self.used_bytes <= self.budget_bytes:
                break
            if self._may_leave(candidate):
                self.drop(candidate)
                left.append(candidate)
        return left

    def drop(self, adapter: AdapterId) -> None:
        """Forget a copy; nothing happens when there is none."""
        copy = self._copies.pop(adapter, None)
        if copy is not None:
            self.used_bytes -= copy.nbytes

    def check(self) -> None:
        """The count equals the copies."""
        assert self.used_bytes == sum(copy.nbytes for copy in self._copies.values())


class DiskTier:
    """One image file a version, written once, named by its id. Safe to use from any thread.

    The image of a version that was sent away lies in ``away``, where its origin serves it, until it is brought back.
    """

    def __init__(self, folder: Path, *, pin_memory: bool) -> None:
        self.folder = folder
        self.away = folder / "away"
        self.origins: dict[AdapterId, HttpOrigin] = {}
        self._pin_memory = pin_memory
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, adapter: AdapterId) -> Path:
        """Where the image is or would be."""
        return self.folder / f"{adapter}.image"

    def write(self, packed: PackedAdapter) -> Path:
        """Store an image atomically; a sound one of that id and layout is kept, since the id is its content."""
        path = self.path(packed.id)
        if not self._has_sound(packed):
            packed.write_image(path)
        return path

    def write_all(self, packed: Iterable[PackedAdapter]) -> None:
        """``write`` for many: all are on disk when this returns, and where one cannot be stored, none is new."""
        wanted = {one.id: one for one in packed}
        with Drafts(self.folder) as drafts:
            for one in wanted.values():
                if not self._has_sound(one):
                    one.draft(drafts, self.path(one.id))

    def open(self, adapter: AdapterId) -> AdapterImage:
        """Read the header only. Raises AdapterRefused on a damaged file."""
        return AdapterImage.open(self.path(adapter))

    def read(self, image: AdapterImage) -> HostCopy:
        """Read the pages in one call."""
        pages = torch.empty((image.num_pages, image.page_bytes), dtype=torch.uint8, pin_memory=self._pin_memory)
        image.read_into(pages.view(-1).numpy().data)
        return HostCopy(table=image.table, pages=pages)

    def fetch(self, adapter: AdapterId) -> bool:
        """Bring the image from its origin when it is not on disk; False when nothing was to do. Raises OSError."""
        origin, path = self.origins.get(adapter), self.path(adapter)
        if origin is None or path.exists():
            return False
        beside = path.with_suffix(".image.part")
        try:
            origin.fetch(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return True

    def send_away(self, adapter: AdapterId, origin: HttpOrigin) -> None:
        """From now on the image is on disk only once it was fetched. The origin serves the file in ``away``."""
        self.origins[adapter] = origin
        self.away.mkdir(exist_ok=True)
        kept = self.away / self.path(adapter).name
        if kept.exists():
            self.path(adapter).unlink(missing_ok=True)
        else:
            self.path(adapter).replace(kept)

    def bring_back(self, adapter: AdapterId) -> None:
        """The image is on disk again, and has no origin; nothing happens when it was not sent away."""
        kept = self.away / self.path(adapter).name
        if kept.exists():
            kept.replace(self.path(adapter))
        self.origins.pop(adapter, None)
        with contextlib.suppress(OSError):  # somebody else's image is there, or it never was
            self.away.rmdir()

    def delete(self, adapter: AdapterId) -> None:
        """Remove an image; nothing happens when there is none. One that cannot be removed stays until a sweep."""
        self.origins.pop(adapter, None)
        for path in (self.away / self.path(adapter).name, self.path(adapter)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:  # a folder that is read-only says so of a file that is not there, too
                log.warning("image %s was not removed: %s", path.name, error.strerror)

    def _has_sound(self, packed: PackedAdapter) -> bool:
        if not self.path(packed.id).exists():
            return False
        try:
            image = self.open(packed.id)
            pages = memoryview(bytearray(image.pages_bytes))
            image.read_into(pages)
            image.verify(pages)
        except (AdapterRefused, OSError):
            return False
        return (image.page_elems, image.dtype) == (packed.pages.shape[1], packed.pages.dtype)

    def sweep(self, keep: Collection[AdapterId], *, before: Callable[[AdapterId], str] = str) -> None:
        """Put right what an earlier process left behind, before anything is registered.

        Images that were away come back; images of other versions and files half written are removed. ``before`` says what an image was
        called before ids told owners apart: one that lies there is written again, under the id of its own, or on a disk without room for
        that left for a later start.
        """
        for path in self.away.glob("*.image"):
            path.replace(self.folder / path.name)
        known = {*keep, *self._rename(keep, before)}
        for path in self.folder.glob("*.image*"):
            if path.suffix != ".image" or path.stem not in known:
                path.unlink()
        sweep_parts(self.folder)

    def _rename(self, keep: Collection[AdapterId], before: Callable[[AdapterId], str]) -> set[str]:
        """Images go from what they were called to ids of their own, one by one; the names of those for which there was no room."""
        there = {path.stem for path in self.folder.glob("*.image")}
        wanted = defaultdict(list)
        for adapter in keep:
            if adapter not in there and (name := before(adapter)) in there:
                wanted[AdapterId(name)].append(adapter)
        missing: list[tuple[AdapterId, OSError]] = []
        for name, adapters in wanted.items():
            for adapter in adapters:
                try:
                    AdapterImage.copy(self.path(name), self.path(adapter), adapter=adapter)
                except AdapterRefused:  # a damaged one is as good as none
                    continue
                except OSError as error:
                    missing.append((name, error))
            if name not in keep and name not in {each for each, _ in missing}:
                self.path(name).unlink()  # makes room for the next
        if missing:
            needed_bytes = sum(self.path(name).stat().st_size for name, _ in missing)
            log.warning(NO_ROOM, len(missing), self.folder, missing[0][1].strerror, needed_bytes)
        return {name for name, _ in missing}
