"""Which base this is: one digest over its weights and all that shapes its answers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from engine.errors import BaseRefused
from engine.weights.checkpoint import checkpoint_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.models.spec import ModelSpec

NAMES = ("name", "digest", "max_position")
"""Fields of a spec under which the same tokens give the same answers."""
CACHE = "digests.json"


def base_digest(folder: Path, spec: ModelSpec, *, data: Path | None = None) -> str:
    """sha256 hex over each tensor's name, dtype, shape and bytes and the spec; how files are cut or named does not matter.

    With ``data``, the weights' part is remembered in that folder under path, size and modification time, and not read again.
    Raises BaseRefused for a damaged file.
    """
    behaviour = {name: value for name, value in dataclasses.asdict(spec).items() if name not in NAMES}
    files = checkpoint_files(folder)
    weights = weights_digest(files) if data is None else _remembered(files, data / CACHE)
    return _hash({"weights": weights, "behaviour": behaviour})


def weights_digest(files: Sequence[Path]) -> str:
    """sha256 hex over the tensors of all files, in the order of their names. Reads every byte, on all cores."""
    tensors = [(path, name, entry) for path in files for name, entry in _header(path).items()]
    with ThreadPoolExecutor() as pool:  # hashlib lets go of the GIL
        digests = pool.map(_tensor_digest, [path for path, _, _ in tensors], [entry["span"] for _, _, entry in tensors])
        facts = [[name, entry["dtype"], entry["shape"], digest] for (_, name, entry), digest in zip(tensors, digests, strict=True)]
    return _hash(sorted(facts))


def _remembered(files: Sequence[Path], cache: Path) -> str:
    """From the cache file, or computed and written there."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    key = _hash(stats)
    try:
        known = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        known = {}
    if key not in known:
        known[key] = weights_digest(files)
        cache.parent.mkdir(parents=True, exist_ok=True)
        draft = cache.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(known, indent=1), encoding="utf-8")
        draft.replace(cache)
    return str(known[key])


def _header(path: Path) -> dict[str, dict[str, Any]]:
    """Of each tensor: dtype, shape, and ``span``, the (first, end) byte in the file."""
    try:
        return dict(_entries(path))
    except (ValueError, KeyError, TypeError) as error:
        raise BaseRefused(f"{path} is damaged: {error!r}", param=path.name) from None


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """safetensors: a little-endian length of 8 bytes, JSON of that length, then the bytes."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size - 8:
            raise ValueError("the header is longer than the file")
        header = json.loads(file.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            first, end = (8 + length + offset for offset in entry["data_offsets"])
            if end > path.stat().st_size:
                raise ValueError(f"{name} ends after the file")
            yield name, {"dtype": entry["dtype"], "shape": entry["shape"], "span": (first, end)}


def _tensor_digest(path: Path, span: tuple[int, int]) -> str:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        return hashlib.sha256(view[slice(*span)]).hexdigest()


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
