"""Long lists cut to what one statement may name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
LONGEST = 500


def slices(values: Iterable[T]) -> Iterator[list[T]]:
    """In their order, at most ``LONGEST`` together."""
    rest = iter(values)
    while part := list(islice(rest, LONGEST)):
        yield part
