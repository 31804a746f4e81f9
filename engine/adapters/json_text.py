"""JSON from strangers: one object, bounded before it is parsed."""

from __future__ import annotations

import json
from typing import NoReturn

from engine.adapters.refusal import RefusalCode, refusal

MAX_VALUES = 65_536
"""More commas and brackets than this are refused unparsed: 200,000 nested brackets or a million entries cost nothing."""

LFS_MARK = b"version https://git-lfs"


def parse_object(data: bytes, *, file: str, code: RefusalCode = "config_invalid") -> dict[str, object]:
    """The object, keys unique, without NaN. Raises AdapterRefused: ``code``, ``lfs_pointer`` or ``header_too_large``."""
    refuse_lfs_pointer(data, file=file)
    if (values := sum(map(data.count, (b",", b"[", b"{")))) > MAX_VALUES:
        message = f"{file} holds more values than any adapter needs."
        raise refusal("header_too_large", message, param=file, expected=f"at most {MAX_VALUES}", found=values)
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise refusal(code, f"{file} is not the JSON it should be: {reason}.", param=file, expected="a JSON object") from None
    if not isinstance(value, dict):
        raise refusal(code, f"{file} must be a JSON object.", param=file, expected="object", found=type(value).__name__)
    return value


def refuse_lfs_pointer(data: bytes, *, file: str) -> None:
    """Raises AdapterRefused when the bytes are a Git-LFS pointer."""
    if data.startswith(LFS_MARK):
        message = f"{file} is a Git-LFS pointer: the real file was not downloaded. Run `git lfs pull` where it came from."
        raise refusal("lfs_pointer", message, param=file, expected="the file itself", found="Git-LFS pointer")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        message = "a name appears twice in one object"
        raise ValueError(message)
    return found


def _no_constant(text: str) -> NoReturn:
    message = f"{text} is not JSON"
    raise ValueError(message)
