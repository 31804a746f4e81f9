"""The archive: files named by the digest of what they hold, so that damage is found and nothing is kept twice."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import AdapterRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

CHUNK_BYTES = 2**20
DIGEST = re.compile(r"[0-9a-f]{64}")
PART = ".part-"
"""What a file's name begins with until it is whole."""


class Archive:
    """A folder of files under ``ab/cdef…``, each written whole or not at all. Safe to use from any thread; one process a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.changing = threading.Lock()
        """Held while a version's files are put in or taken out, and until the registry says so: another version may name the same image."""
        sweep_parts(folder)

    def path(self, digest: str) -> Path:
        """Where what has this sha256 is or would be."""
        assert DIGEST.fullmatch(digest)
        return self._folder / digest[:2] / digest[2:]

    def keep(self, source: Path) -> str:
        """Copy a file in; its digest. A sound copy that is there already stays. Raises OSError."""
        with source.open("rb") as file:
            return self._keep(_chunks(file))

    def keep_bytes(self, data: bytes) -> str:
        """Likewise for what is in memory."""
        return self._keep(iter([data]))

    def fetch(self, digest: str, target: Path) -> None:
        """Copy to ``target``, proven, and whole or not at all. Raises AdapterRefused (``archive_damaged``, ``…_missing``) or OSError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._open(digest) as file:
            beside, found = _write_beside(target.parent, _chunks(file))
        if found != digest:
            beside.unlink()
            raise _damaged(digest, f"it holds {found[:16]}…")
        beside.replace(target)

    def read(self, digest: str) -> bytes:
        """The bytes, proven. Raises AdapterRefused (``archive_damaged``, ``…_missing``) or OSError."""
        with self._open(digest) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise _damaged(digest, "its bytes do not match its name")
        return data

    def verify(self, digest: str) -> None:
        """Read it once and compare. Raises AdapterRefused (``archive_damaged``, ``…_missing``) or OSError."""
        seen = hashlib.sha256()
        with self._open(digest) as file:
            for chunk in _chunks(file):
                seen.update(chunk)
        if seen.hexdigest() != digest:
            raise _damaged(digest, "its bytes do not match its name")

    def size(self, digest: str) -> int:
        """Bytes of a file; 0 when there is none."""
        path = self.path(digest)
        return path.stat().st_size if path.exists() else 0

    def drop(self, digest: str) -> None:
        """Remove a file; nothing happens when there is none. Raises OSError."""
        self.path(digest).unlink(missing_ok=True)

    def _open(self, digest: str) -> BufferedReader:
        try:
            return self.path(digest).open("rb")
        except FileNotFoundError:
            message = f"The archived file {digest[:16]}… is not there. It cannot be restored; register the adapter from its source."
            raise AdapterRefused(message, code="archive_missing", param="archive", expected=digest) from None

    def _keep(self, chunks: Iterator[bytes]) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        beside, digest = _write_beside(self._folder, chunks)
        target = self.path(digest)
        target.parent.mkdir(exist_ok=True)
        beside.replace(target)  # over a copy that may be damaged: what was just written is not
        _flush_folder(target.parent)
        return digest


def sweep_parts(folder: Path) -> None:
    """Remove what a process that was killed had written beside. Before this one writes."""
    for path in folder.glob(f"{PART}*"):
        path.unlink()


def _write_beside(folder: Path, chunks: Iterator[bytes]) -> tuple[Path, str]:
    """A new file in ``folder``, flushed to disk, and its digest; nothing is left when writing fails."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=PART)
    seen = hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                seen.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name), seen.hexdigest()


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(digest: str, why: str) -> AdapterRefused:
    message = f"The archived file {digest[:16]}… is damaged: {why}. It cannot be restored; register the adapter from its source."
    return AdapterRefused(message, code="archive_damaged", param="archive", expected=digest)
