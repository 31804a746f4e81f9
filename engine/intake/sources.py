"""From what a caller wrote to a folder on this disk: admitted by the allow-list, fetched or unpacked where it must be."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.adapters.folder import CONFIG, WEIGHTS, AdapterFolder
from engine.adapters.refusal import refusal
from engine.errors import InvalidRequest
from engine.intake.allow_list import AllowList
from engine.intake.remote import CHUNK_BYTES, open_store
from engine.intake.staging import MAX_LISTED, Staging
from engine.intake.zip_file import opened_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.intake.place import Place, Scheme
    from engine.intake.remote import Store
    from engine.settings import Settings

MAX_ADAPTERS = 100_000
MAX_SCAN_DEPTH = 4
MANIFESTS = (".csv", ".jsonl", ".yaml", ".yml")
MAX_MANIFEST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An adapter below a prefix. ``name`` is its path from there, "" for the prefix itself."""

    name: str
    source: str


class Sources:
    """All that comes in passes here. What others send or fetch, and lies in staging meanwhile, is nobody's source. Any thread."""

    def __init__(self, settings: Settings) -> None:
        self.staging = Staging(settings.data / "staging", max_weights_bytes=settings.max_adapter)
        self._allowed = AllowList(settings.allowed_sources, never=[self.staging.folder])
        self._stores: dict[Scheme, Store] = {}
        self._lock = threading.Lock()

    @contextmanager
    def opened(self, source: str, *, sha256: str = "") -> Iterator[Path]:
        """A folder with the adapter's files, for as long as the block lasts. Raises SourceNotAllowed or AdapterRefused.

        ``sha256`` is of the weights file, in hex; weights with another are refused.
        """
        place = self._allowed.admit(source)
        if isinstance(place, Path) and place.suffix.lower() != ".zip":
            _check_sha256(place, sha256)
            yield place
            return
        with self.staging.room() as room:
            if isinstance(place, Path):
                self.unpack(place, _only_adapter(place), into=room)
            else:
                self.staging.fetch(self._store(place.scheme), place, room)
            _check_sha256(room, sha256)
            yield room

    def unpack(self, archive: Path, folder: str, *, into: Path) -> None:
        """Bring one adapter's known files out of an archive. Raises AdapterRefused."""
        with opened_archive(archive) as opened:
            for name, chunks in opened.unpacked(folder):
                self.staging.keep(chunks, into / name)

    def scan(self, prefix: str) -> Iterator[Found]:
        """The adapters in and below a folder, four levels deep, in order of name. Raises SourceNotAllowed or AdapterRefused."""
        place = self._allowed.admit(prefix)
        found = self._scan_disk(place, prefix) if isinstance(place, Path) else self._scan_store(self._store(place.scheme), place)
        for count, adapter in enumerate(found):
            if count == MAX_ADAPTERS:
                message = f"There are more than {MAX_ADAPTERS} adapters below {prefix[:80]!r}; scan parts of it."
                raise InvalidRequest(message, code="too_many_rows", param="source", expected=f"at most {MAX_ADAPTERS}")
            yield adapter

    def read_text(self, source: str) -> bytes:
        """A manifest's bytes. Raises SourceNotAllowed, AdapterRefused, or InvalidRequest past 64 MiB."""
        place = self._allowed.admit(source)
        if not source.lower().endswith(MANIFESTS):
            message = f"A manifest's name ends in {', '.join(MANIFESTS)}."
            raise InvalidRequest(message, code="invalid_source", param="source", expected=list(MANIFESTS), found=source[-80:])
        text = bytearray()
        for chunk in _file_chunks(place) if isinstance(place, Path) else self._store(place.scheme).chunks(place):
            text += chunk
            if len(text) > MAX_MANIFEST_BYTES:
                message = f"The manifest is larger than {MAX_MANIFEST_BYTES} bytes."
                raise InvalidRequest(message, code="manifest_too_large", param="source", expected=f"at most {MAX_MANIFEST_BYTES} bytes")
        return bytes(text)

    def _store(self, scheme: Scheme) -> Store:
        with self._lock:
            return self._stores.get(scheme) or self._stores.setdefault(scheme, open_store(scheme))

    def _scan_disk(self, root: Path, prefix: str) -> Iterator[Found]:
        """Links are not followed: what they lead to has a path of its own."""
        if not root.is_dir():
            raise refusal("source_unreadable", "The prefix is no folder that can be read.", param="source", found=prefix[:80])
        for folder, inner, files in os.walk(root):
            path = Path(folder).relative_to(root)
            inner[:] = sorted(name for name in inner if not self._allowed.is_never(Path(folder) / name))
            if CONFIG in files:
                yield Found(name="" if path == Path() else path.as_posix(), source=folder)
            if CONFIG in files or len(path.parts) >= MAX_SCAN_DEPTH:
                inner.clear()

    def _scan_store(self, store: Store, place: Place, *, path: tuple[str, ...] = ()) -> Iterator[Found]:
        entries = store.entries(place, most=MAX_LISTED)
        if len(entries) > MAX_LISTED:
            message = f"{place.url} holds more than {MAX_LISTED} names; name its adapters in a manifest."
            raise refusal("source_unreadable", message, param="source", expected=f"at most {MAX_LISTED} names")
        if any(entry.name == CONFIG and not entry.is_folder for entry in entries):
            yield Found(name="/".join(path), source=place.url)
        elif len(path) < MAX_SCAN_DEPTH:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_folder:
                    yield from self._scan_store(store, place.below(entry.name), path=(*path, entry.name))


def _only_adapter(archive: Path) -> str:
    with opened_archive(archive) as opened:
        folders = opened.adapters
    if len(folders) > 1:
        message = f"The archive holds {len(folders)} adapters; import it as a whole, or name one of them."
        raise refusal("archive_invalid", message, param="source", expected=1, found=len(folders))
    return folders[0]


def _file_chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as fault:
        raise refusal("source_unreadable", f"The file cannot be read: {fault.strerror}.", param="source") from None


def _check_sha256(folder: Path, expected: str) -> None:
    """Only what was announced is taken in."""
    if not expected:
        return
    digest = hashlib.sha256()
    with AdapterFolder.look(folder).open(WEIGHTS) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != expected.lower():
        message = f"{WEIGHTS} is not the file that was announced: its sha256 is another."
        raise refusal("sha256_mismatch", message, param="sha256", expected=expected, found=digest.hexdigest())
