"""The tensors of a Hugging Face folder, one after another: safetensors, sharded or not, never pickle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import BaseRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def checkpoint_files(folder: Path) -> tuple[Path, ...]:
    """The weight files in the order to read them. Raises BaseRefused when there are none or one is missing."""
    if (folder / INDEX).is_file():
        return tuple(_present(folder / name) for name in sorted(set(read_index(folder).values())))
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    pickled = next((path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)), None)
    hint = f"; {pickled} is pickle, which is never loaded: convert it to safetensors" if pickled else ""
    raise BaseRefused(f"{folder} has no {SINGLE} and no {INDEX}{hint}", param=SINGLE, found=pickled)


def read_index(folder: Path) -> dict[str, str]:
    """Tensor name → file name. Raises BaseRefused when the index is not what it should be."""
    try:
        names = json.loads((folder / INDEX).read_bytes())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise BaseRefused(f"{folder / INDEX} has no readable weight_map: {error!r}", param=INDEX) from None
    if not isinstance(names, dict) or not all(isinstance(name, str) and "/" not in name for name in names.values()):
        raise BaseRefused(f"{folder / INDEX}: weight_map must give each tensor a file of this folder", param=INDEX)
    return names


def stream_checkpoint(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Each (name, tensor) of the folder, on the CPU, as stored; the tensor may be a view of the mapped file.

    Raises BaseRefused for a damaged file, an index that disagrees with its files, a dtype that is not fp32, bf16 or fp16,
    and values that are not finite.
    """
    index = read_index(folder) if (folder / INDEX).is_file() else None
    seen: set[str] = set()
    for path in checkpoint_files(folder):
        for name, tensor in _stream_file(path):
            if index is not None and index.get(name) != path.name:
                raise BaseRefused(f"{path.name} holds {name}, which {INDEX} places elsewhere", param=name, found=path.name)
            seen.add(name)
            yield name, checked(name, tensor)
    for name in sorted(set(index or ()) - seen):
        raise BaseRefused(f"{INDEX} names {name}, which no file holds", param=name)


def checked(name: str, tensor: Tensor) -> Tensor:
    """The tensor itself. Raises BaseRefused unless it is floating point that this engine reads, and finite."""
    if tensor.dtype not in FLOATS:
        raise BaseRefused(
            f"{name} is {tensor.dtype}; quantised weights are not supported", param=name, expected="float32, bfloat16 or float16",
            found=str(tensor.dtype),
        )  # fmt: skip
    if not torch.isfinite(tensor).all():
        raise BaseRefused(f"{name} holds NaN or infinity", param=name, expected="finite values")
    return tensor


def _stream_file(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 not a mapping
                yield name, file.get_tensor(name)
    except SafetensorError as error:
        raise BaseRefused(f"{path} is damaged: {error}", param=path.name) from None


def _present(path: Path) -> Path:
    if not path.is_file():
        raise BaseRefused(f"{INDEX} names {path.name}, which is missing", param=path.name)
    return path
