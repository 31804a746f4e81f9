"""Where files from elsewhere lie while they are looked at: names of our own, sizes counted as they come, nothing left behind."""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from engine.adapters.folder import KNOWN, MAX_TEXT_BYTES, WEIGHTS, check_form
from engine.adapters.refusal import refusal
from engine.errors import AdapterRefused
from engine.full_disk import unwritable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from engine.intake.place import Place
    from engine.intake.remote import Store

MAX_LISTED = 10_000
OPTIONAL = frozenset(KNOWN[2:])


class Staging:
    """A folder below the data folder. Safe to use from any thread."""

    def __init__(self, folder: Path, *, max_weights_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = dict.fromkeys(KNOWN, MAX_TEXT_BYTES) | {WEIGHTS: max_weights_bytes}

    @contextmanager
    def room(self) -> Iterator[Path]:
        """An empty folder that goes with all it holds at the end."""
        path = self.folder / uuid.uuid4().hex
        path.mkdir(parents=True, mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def fetch(self, store: Store, place: Place, into: Path) -> None:
        """Bring an adapter's known files from a remote folder. Raises AdapterRefused; a pickle is refused by its name, never fetched."""
        names = None
        if place.scheme not in {"http", "https"}:  # a server of plain files need not list them
            entries = store.entries(place, most=MAX_LISTED)
            names = frozenset(entry.name for entry in entries if not entry.is_folder)
            folders = frozenset(entry.name for entry in entries if entry.is_folder)
            check_form(names, has_config=folders.__contains__)
        for name in KNOWN:
            if names is None or name in names:
                self._fetch_one(store, place, into, name)

    def _fetch_one(self, store: Store, place: Place, into: Path, name: str) -> None:
        try:
            self.keep(store.chunks(place.below(name)), into / name)
        except AdapterRefused as fault:
            if fault.code != "source_absent" or name not in OPTIONAL:
                raise

    def keep(self, chunks: Iterable[bytes], path: Path) -> None:
        """Write a known file as it comes, cut off past its limit. Raises AdapterRefused or RegistryUnavailable; then no file is left."""
        try:
            with path.open("xb") as file:
                for chunk in _capped(chunks, name=path.name, most=self._max_bytes[path.name]):
                    file.write(chunk)
        except BaseException as fault:
            path.unlink(missing_ok=True)
            if isinstance(fault, OSError):
                raise unwritable(f"The copy of {path.name} in {self.folder}", fault) from fault
            raise

    def sweep(self, *, keep: Collection[str], before_unix: float) -> None:
        """Remove what was last written before a time, but for the names in ``keep``."""
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            with suppress(FileNotFoundError):  # its own end came first
                if path.name not in keep and path.stat().st_mtime < before_unix:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _capped(chunks: Iterable[bytes], *, name: str, most: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            message = f"{name} is larger than {most} bytes, the most that is taken in."
            raise refusal("file_too_large", message, param=name, expected=f"at most {most} bytes")
        yield chunk
