"""A zip file from a stranger: its list is proven before anything is unpacked, and only known files ever are."""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from engine.adapters.folder import CONFIG, KNOWN, check_form
from engine.adapters.refusal import refusal, shown
from engine.errors import AdapterRefused

MAX_ENTRIES = 65_534
"""More need zip64, which also means more than 4 GiB."""
MAX_LIST_BYTES = 32 * 2**20
MAX_NAME_CHARS, MAX_PART_CHARS, MAX_DEPTH = 1024, 255, 16
MAX_RATIO, ALWAYS_FINE_BYTES = 200, 2**20
"""Unpacked over packed: weights hardly shrink, deflate can reach 1032."""
END, END_BYTES, LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
LOCATOR_64, LOCATOR_BYTES = b"PK\x06\x07", 20
ENCRYPTED = 0x1 | 0x40
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
CHUNK_BYTES = 256 * 1024
DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)( *\.[^/]*)?", re.IGNORECASE)
"""Names that Windows reads as devices, whatever follows the dot."""


class Archive:
    """An opened zip file. Not safe to share between threads."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises AdapterRefused naming the first entry at fault, before anything is unpacked."""
        _check_end(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OSError) as fault:
            raise _invalid(f"The file is no zip archive that can be read: {fault}.") from None
        self._files = _checked(self._zip.infolist())

    @property
    def adapters(self) -> tuple[str, ...]:
        """The folders that hold a config, in order of name. Raises AdapterRefused when there is none."""
        found = sorted(folder for folder, files in self._files.items() if CONFIG in files)
        if not found:
            check_form(frozenset(self._files.get("", ())), has_config=lambda _name: False)
        return tuple(found)

    def unpacked(self, folder: str) -> Iterator[tuple[str, Iterator[bytes]]]:
        """(name, bytes as they come) of each known file of one adapter. Raises AdapterRefused; sizes are counted, not believed."""
        files = self._files.get(folder, {})
        check_form(frozenset(files), has_config=lambda _name: False)
        for name in KNOWN:
            if name in files:
                yield name, self._chunks(files[name])

    def _chunks(self, entry: zipfile.ZipInfo) -> Iterator[bytes]:
        size, most = 0, max(ALWAYS_FINE_BYTES, entry.compress_size * MAX_RATIO)
        try:
            with self._zip.open(entry) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    size += len(chunk)
                    if size > most:
                        message = f"{shown(entry.filename)} unpacks to more than {MAX_RATIO} times its size, as no adapter does."
                        raise _unsafe(message, entry.filename)
                    yield chunk
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as fault:
            raise _invalid(f"{shown(entry.filename)} cannot be unpacked: {fault}.", entry.filename) from None


@contextmanager
def opened_archive(path: Path) -> Iterator[Archive]:
    """The archive at ``path``. Raises AdapterRefused."""
    try:
        file = path.open("rb")
    except OSError as fault:
        raise refusal("source_unreadable", f"The archive cannot be opened: {fault.strerror}.", param="source") from None
    with file:
        yield Archive(file)


def _check_end(file: IO[bytes]) -> None:
    """Bound what reading the list will cost: the record at the end says how long the list is, and zip64 could say anything."""
    size = file.seek(0, 2)
    start = max(0, size - END_BYTES - LONGEST_COMMENT - LOCATOR_BYTES)
    file.seek(start)
    tail = file.read()
    plain = len(tail) - END_BYTES
    at = plain if plain >= 0 and tail[plain:].startswith(END) and tail.endswith(b"\0\0") else tail.rfind(END)
    if at < 0 or len(tail) - at < END_BYTES:
        raise _invalid("The file is no zip archive: it has no list of entries.")
    entries, list_bytes = struct.unpack("<HL", tail[at + 10 : at + 16])
    if tail[max(0, at - LOCATOR_BYTES) : at].startswith(LOCATOR_64) or entries > MAX_ENTRIES or list_bytes > MAX_LIST_BYTES:
        message = f"The archive lists more than {MAX_ENTRIES} entries, or is a zip64 archive. Split it, or name the adapters in a manifest."
        raise refusal("archive_unsafe", message, param="archive", expected=f"at most {MAX_ENTRIES} entries", found=entries)


def _checked(entries: list[zipfile.ZipInfo]) -> dict[str, dict[str, zipfile.ZipInfo]]:
    """Files by folder and name, once every entry was looked at."""
    if len(entries) > MAX_ENTRIES:
        raise refusal("archive_unsafe", f"The archive has more than {MAX_ENTRIES} entries.", param="archive", found=len(entries))
    files: defaultdict[str, dict[str, zipfile.ZipInfo]] = defaultdict(dict)
    seen: set[str] = set()
    for entry in entries:
        _check_entry(entry)
        key = entry.filename.rstrip("/").casefold()
        if key in seen:
            raise _unsafe(f"{shown(entry.filename)} is in the archive twice.", entry.filename)
        seen.add(key)
        if not entry.is_dir():
            path = PurePosixPath(entry.filename)
            files["" if str(path.parent) == "." else str(path.parent)][path.name] = entry
    return files


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.orig_filename
    fault = _fault_of_name(name)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if fault is None and kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        fault = "is a link or a device, not a file"
    if fault is None and entry.flag_bits & ENCRYPTED:
        fault = "is encrypted"
    if fault is None and entry.compress_type not in METHODS:
        fault = "is packed by a method other than deflate"
    if fault is not None:
        raise _unsafe(f"{shown(name)} {fault}: nothing of this archive is unpacked.", name)


def _fault_of_name(name: str) -> str | None:
    """Why a name could land elsewhere than it says; None for a plain relative path."""
    parts = name.removesuffix("/").split("/")
    if "\\" in name or any(ord(char) < 32 or ord(char) == 127 for char in name):  # noqa: PLR2004 - control characters
        return "has a backslash or a control character in its name"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "is an absolute path"
    if any(part in {"", ".", ".."} for part in parts):
        return "has an empty, '.' or '..' part"
    if len(name) > MAX_NAME_CHARS or len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_PART_CHARS for part in parts):
        return "has a name that is too long or too deep"
    if any(DEVICE.fullmatch(part) or part != part.rstrip(". ") for part in parts):
        return "is a device's name, or ends in a dot or space"
    return None


def _invalid(message: str, param: str = "archive") -> AdapterRefused:
    return refusal("archive_invalid", message, param=param, expected="a zip archive")


def _unsafe(message: str, name: str) -> AdapterRefused:
    return refusal("archive_unsafe", message, param="archive", expected="plain files below the top", found=name[:80])
