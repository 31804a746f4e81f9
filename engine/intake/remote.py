"""Stores that are not this machine, through fsspec: list a folder, stream a file; nothing is buffered whole."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import aiohttp
import fsspec

from engine.adapters.refusal import refusal
from engine.errors import InvalidRequest
from engine.intake.http_store import http_file_system, read_index
from engine.intake.place import Scheme

if TYPE_CHECKING:
    from engine.intake.place import Place

CHUNK_BYTES = 256 * 1024
BLOCK_BYTES = 8 * 2**20
"""What a store that reads by range fetches ahead."""
STREAM: dict[Scheme, dict[str, Any]] = {
    # A block of 0 asks for a plain stream; a size that is given keeps fsspec from asking for it first.
    "http": {"block_size": 0, "size": 1},
    "https": {"block_size": 0, "size": 1},
    "hf": {"block_size": 0},
    "s3": {"block_size": BLOCK_BYTES, "cache_type": "readahead"},
}
INSTALL: dict[Scheme, str] = {"s3": "s3fs", "hf": "huggingface_hub"}
FAULTS: dict[Scheme, tuple[str, ...]] = {"s3": ("botocore.exceptions.BotoCoreError",), "hf": ("httpx.HTTPError",)}
"""What a store's library raises beside OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a folder."""

    name: str
    is_folder: bool


class Store:
    """One kind of store. Safe to use from any thread; every fault of it is an AdapterRefused, ``source_unreadable``."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._fs = _file_system(scheme)
        self._faults: tuple[type[Exception], ...] = (
            OSError,
            ValueError,
            aiohttp.ClientError,
            *(_error_class(name) for name in FAULTS.get(scheme, ())),
        )

    def entries(self, folder: Place, *, most: int) -> tuple[Entry, ...]:
        """What lies in a folder, at most ``most`` names and one more. An HTTP server shows it as an index page, if at all."""
        with self._told(folder):
            if self._scheme in {"http", "https"}:
                with self._stream(folder.url + "/") as page:
                    links = islice(read_index(page, folder), most + 1)
                    return tuple(Entry(name=name, is_folder=is_folder) for name, is_folder in links)
            rows = self._fs.ls(folder.path, detail=True)
            return tuple(
                Entry(name=str(row["name"]).rstrip("/").rpartition("/")[2], is_folder=row["type"] == "directory")
                for row in islice(rows, most + 1)
                if str(row["name"]).strip("/") != folder.path  # S3 lists a folder's own marker
            )

    def chunks(self, file: Place) -> Iterator[bytes]:
        """A file's bytes as they come."""
        with self._told(file), self._stream(file.url if self._scheme in {"http", "https"} else file.path) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk

    @contextmanager
    def _stream(self, path: str) -> Iterator[IO[bytes]]:
        with self._fs.open(path, "rb", **STREAM[self._scheme]) as stream:
            yield stream

    @contextmanager
    def _told(self, place: Place) -> Iterator[None]:
        """Faults of the network and of the store in our own words, without what they say of the inside."""
        try:
            yield
        except FileNotFoundError:
            message = f"There is no {place.url}."
            raise refusal("source_absent", message, param="source", found=place.url) from None
        except self._faults as fault:
            message = f"{place.url} cannot be read: {_reason(fault)}."
            raise refusal("source_unreadable", message, param="source", found=place.url) from None


def open_store(scheme: Scheme) -> Store:
    """The store of a scheme. Raises InvalidRequest naming the package when its library is not installed."""
    package = INSTALL.get(scheme)
    if package is not None and importlib.util.find_spec(package) is None:
        message = f"Sources of {scheme}:// need the package {package}: pip install {package}, then start again."
        raise InvalidRequest(message, code="source_unsupported", param="source", expected=package, found=f"{scheme}://")
    return Store(scheme)


def _file_system(scheme: Scheme) -> Any:  # noqa: ANN401 - fsspec has no types
    if scheme in {"http", "https"}:
        return http_file_system()
    return fsspec.filesystem(scheme, use_listings_cache=False)  # kept for the process: s3fs closes badly when it is collected


def _error_class(name: str) -> type[Exception]:
    module, _, attribute = name.rpartition(".")
    found: type[Exception] = getattr(importlib.import_module(module), attribute)
    return found


def _reason(fault: Exception) -> str:
    """What went wrong, in one phrase."""
    if isinstance(fault, PermissionError):
        return "access is denied"
    if isinstance(fault, TimeoutError):
        return "it did not answer in time"
    if isinstance(fault, aiohttp.ClientConnectorError | ConnectionError):
        return "no connection"
    return str(fault.strerror) if isinstance(fault, OSError) and fault.strerror else f"its store answered with {type(fault).__name__}"
