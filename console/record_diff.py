"""What a line of the audit log changed, field by field, and the log as a file. Pure."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from console import format as fmt
from engine import plain_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine import AuditRecord

FIELDS = (
    "key",
    "at_unix",
    "by",
    "by_kind",
    "tenant",
    "action",
    "object_kind",
    "object",
    "before",
    "after",
    "why",
    "request",
    "undo_of",
    "hash",
)


class Difference(NamedTuple):
    """One field; None on a side is no such field there."""

    name: str
    before: str | None
    after: str | None

    @property
    def is_change(self) -> bool:
        """Whether both sides say something else."""
        return self.before != self.after


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Difference]:
    """All fields of both sides, those that changed first, each in the order of its name."""
    old, new = ({name: _words(name, value) for name, value in (side or {}).items()} for side in (before, after))
    found = [Difference(name.removesuffix("_unix"), old.get(name), new.get(name)) for name in sorted({*old, *new})]
    return sorted(found, key=lambda each: not each.is_change)


def _words(name: str, value: object) -> str:
    if value is None:
        return fmt.DASH
    if name.endswith("_unix") and isinstance(value, int | float):
        return fmt.utc(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{fmt.percent(value, 0)} %" if name.endswith("share") else f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{each.removesuffix('_unix')} {_words(each, own)}" for each, own in value.items() if own is not None) or fmt.DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_jsonl(lines: Iterable[AuditRecord]) -> bytes:
    """One JSON object a line, all fields."""
    return "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in lines).encode()


def as_csv(lines: Iterable[AuditRecord]) -> bytes:
    """With a head; ``before`` and ``after`` are JSON. No cell is a formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(FIELDS)
    for line in lines:
        writer.writerow([_cell(getattr(line, name)) for name in FIELDS])
    return out.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return plain_cell(value)
