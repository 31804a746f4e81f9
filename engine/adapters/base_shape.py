"""What an adapter must know of the base it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class BaseShape(Protocol):
    """Sizes of the base; a ``ModelSpec`` is one."""

    @property
    def name(self) -> str:
        """Shown to people; never compared to decide."""

    @property
    def num_layers(self) -> int:
        """Decoder layers."""

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding."""

    @property
    def module_dims(self) -> Mapping[str, tuple[int, int]]:
        """(in, out) features by projection."""
