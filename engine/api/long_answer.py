"""Answers with tens of thousands of rows: made slice by slice in a thread, so that no other answer waits for them."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson
from fastapi.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.snapshot import EngineSnapshot

SLICE_ROWS = 250
"""About a millisecond of the interpreter each."""


def long_answer(parts: Iterable[bytes]) -> StreamingResponse:
    """JSON in parts; each is made in a thread when its turn comes."""
    return StreamingResponse(iter(parts), media_type="application/json")


def rows_json(rows: Iterable[Any]) -> Iterator[bytes]:
    """A JSON list, a slice of it at a time."""
    rest, before = iter(rows), b"["
    while part := list(islice(rest, SLICE_ROWS)):
        yield before + orjson.dumps(part)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"


def snapshot_json(snapshot: EngineSnapshot) -> Iterator[bytes]:
    """An object of all fields, the adapters in slices."""
    before = b"{"
    for field in fields(snapshot):
        yield b'%s"%s":' % (before, field.name.encode())
        value = getattr(snapshot, field.name)
        yield from rows_json(value) if field.name == "adapters" else (orjson.dumps(value),)
        before = b","
    yield b"}"
