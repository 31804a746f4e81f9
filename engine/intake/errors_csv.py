"""Rejected rows as a file that a spreadsheet shows and does not run."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.operation import ItemRecord

T = TypeVar("T")
COLUMNS = ("row", "source", "name", "code", "field", "message")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet runs a cell that begins so."""


def plain_cell(value: T) -> T | str:
    """A text that a spreadsheet would run, with an apostrophe before it; anything else as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def csv_head() -> bytes:
    """The first line."""
    return _csv([COLUMNS])


def csv_lines(items: Iterable[ItemRecord]) -> bytes:
    """A line a row; ``row`` counts from 1 in the order they came."""
    return _csv(
        (
            item.number + 1,
            item.data.get("source", ""),
            item.data.get("alias", ""),
            item.code or "",
            item.result.get("param") or "",
            item.message,
        )
        for item in items
    )


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([plain_cell(cell) for cell in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")
