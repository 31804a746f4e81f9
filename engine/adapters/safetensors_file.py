"""Read a safetensors file from a stranger: every number of its header is checked before a byte of it is believed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from io import FileIO
from typing import TypeGuard

import torch
from torch import Tensor

from engine.adapters.json_text import parse_object, refuse_lfs_pointer
from engine.adapters.refusal import refusal, shown
from engine.errors import AdapterRefused

MAX_HEADER_BYTES = 2 * 2**20
MAX_TENSORS = 8192
MAX_DIMS = 8
MAX_ELEMS = 2**40
LENGTH_BYTES = 8

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
PICKLE_MARKS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor of the file: where it is and what it is. ``begin`` counts from the start of the file, in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(file: FileIO, *, name: str) -> tuple[StoredTensor, ...]:
    """The tensors in file order. Raises AdapterRefused; reads at most 2 MiB of a bad file."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(64)
    refuse_lfs_pointer(start, file=name)
    _refuse_pickle(file, start, size, name)
    if len(start) < LENGTH_BYTES:
        raise _truncated(name, expected=LENGTH_BYTES, found=size)
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        message = f"{name} declares a header of {length} bytes: it is damaged or no safetensors file."
        raise refusal("header_too_large", message, param=name, expected=f"at most {MAX_HEADER_BYTES}", found=length)
    if LENGTH_BYTES + length > size:
        raise _truncated(name, expected=LENGTH_BYTES + length, found=size)
    file.seek(LENGTH_BYTES)
    header = parse_object(file.read(length), file=name, code="safetensors_invalid")
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        message = f"{name} names more tensors than any adapter has."
        raise refusal("header_too_large", message, param=name, expected=f"at most {MAX_TENSORS}", found=len(header))
    data = LENGTH_BYTES + length
    tensors = sorted((_entry(key, value, data, name) for key, value in header.items()), key=lambda tensor: (tensor.begin, tensor.end))
    _check_layout(tensors, data=data, size=size, name=name)
    return tuple(tensors)


def read_tensor(file: FileIO, tensor: StoredTensor) -> Tensor:
    """The values, in a buffer of their own. Raises AdapterRefused when the file became shorter meanwhile."""
    values = torch.empty(tensor.shape, dtype=tensor.dtype)
    target = values.view(-1).view(torch.uint8).numpy().data
    file.seek(tensor.begin)
    filled = 0
    while filled < len(target):
        count = file.readinto(target[filled:])
        if not count:
            raise _truncated(tensor.name, expected=len(target), found=filled)
        filled += count
    return values


def _refuse_pickle(file: FileIO, start: bytes, size: int, name: str) -> None:
    """A torch zip, a pickle with its protocol mark, or text that ends in pickle's stop code.

    A healthy file may begin with a pickle's mark (a header of 640 bytes does), but its ninth byte opens the header.
    """
    if start[LENGTH_BYTES : LENGTH_BYTES + 1] in {b"{", b""}:
        return
    file.seek(size - 1)
    if start.startswith(PICKLE_MARKS) or file.read(1) == b".":
        message = f"{name} is a pickle under a safetensors name, which can run code when it is read: convert to safetensors."
        raise refusal("pickle_refused", message, param=name, expected="safetensors", found="pickle")


def _entry(key: str, value: object, data: int, name: str) -> StoredTensor:
    """One line of the header, each field of the right kind."""
    fields = value if isinstance(value, dict) else {}
    shape, offsets, dtype = fields.get("shape"), fields.get("data_offsets"), fields.get("dtype")
    if not (_is_counts(shape, most=MAX_DIMS) and _is_counts(offsets, most=2) and len(offsets) == 2 and isinstance(dtype, str)):  # noqa: PLR2004 - begin and end
        message = f"The header of {name} describes {shown(key)} wrongly."
        raise refusal("safetensors_invalid", message, param=key, expected="dtype, shape and data_offsets")
    if dtype not in DTYPES:
        message = f"{shown(key)} is stored as {shown(dtype)}; adapters may be F32, F16 or BF16."
        raise refusal("dtype_unsupported", message, param=key, expected="F32, F16 or BF16", found=dtype)
    stored = StoredTensor(name=key, dtype=DTYPES[dtype], shape=tuple(shape), begin=data + offsets[0], end=data + offsets[1])
    bytes_needed = math.prod(stored.shape) * stored.dtype.itemsize
    if stored.end - stored.begin != bytes_needed:
        message = f"{shown(key)} of shape {list(stored.shape)} needs {bytes_needed} bytes; the header gives it {stored.end - stored.begin}."
        raise refusal("safetensors_invalid", message, param=key, expected=bytes_needed, found=stored.end - stored.begin)
    return stored


def _is_counts(value: object, *, most: int) -> TypeGuard[list[int]]:
    """Whether it is a short list of sizes."""
    return isinstance(value, list) and len(value) <= most and all(type(item) is int and 0 <= item <= MAX_ELEMS for item in value)


def _check_layout(tensors: list[StoredTensor], *, data: int, size: int, name: str) -> None:
    """The tensors fill the data part once: no hole, no overlap, nothing behind."""
    end = data
    for tensor in tensors:
        if tensor.begin != end:
            message = f"In {name}, {shown(tensor.name)} does not begin where the tensor before it ends."
            raise refusal("safetensors_invalid", message, param=tensor.name, expected=end, found=tensor.begin)
        end = tensor.end
    if end > size:
        raise _truncated(name, expected=end, found=size)
    if end < size:
        message = f"{name} has {size - end} bytes behind its last tensor."
        raise refusal("trailing_bytes", message, param=name, expected=end, found=size)


def _truncated(name: str, *, expected: int, found: int) -> AdapterRefused:
    return refusal("truncated", f"{shown(name)} is cut short: {found} of {expected} bytes.", param=name, expected=expected, found=found)
