"""Sequences in the batch, oldest first, and the adapters they run with."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.ids import AdapterId
    from engine.sequence import Sequence

arrival = attrgetter("key")


class RunningSet:
    """Owned by the engine thread."""

    def __init__(self, pages: Callable[[AdapterId], int]) -> None:
        self._pages = pages
        self._sequences: list[Sequence] = []
        self.adapter_pages = 0
        """Arena pages of the adapters in the batch."""
        self.by_adapter: dict[AdapterId, int] = {}
        """How many run with each, by when it entered."""

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        """Oldest first, over a copy."""
        return iter(tuple(self._sequences))

    @property
    def newest(self) -> Sequence:
        """The last arrival."""
        return self._sequences[-1]

    @property
    def adapters(self) -> tuple[AdapterId, ...]:
        """Distinct adapters in the batch, by when they entered."""
        return tuple(self.by_adapter)

    @property
    def num_adapters(self) -> int:
        """Distinct adapters in the batch."""
        return len(self.by_adapter)

    def has_adapter(self, adapter: AdapterId) -> bool:
        """Whether a sequence runs with it."""
        return adapter in self.by_adapter

    def add(self, sequence: Sequence) -> None:
        """Enter the batch."""
        sequence.state = "running"
        insort(self._sequences, sequence, key=arrival)
        if sequence.adapter is not None:
            if sequence.adapter not in self.by_adapter:
                self.adapter_pages += self._pages(sequence.adapter)
            self.by_adapter[sequence.adapter] = self.by_adapter.get(sequence.adapter, 0) + 1

    def remove(self, sequence: Sequence) -> None:
        """Leave the batch."""
        at = bisect_left(self._sequences, sequence.key, key=arrival)
        assert self._sequences[at] is sequence, f"sequence {sequence.key} does not run"
        del self._sequences[at]
        if sequence.adapter is not None:
            self.by_adapter[sequence.adapter] -= 1
            if not self.by_adapter[sequence.adapter]:
                del self.by_adapter[sequence.adapter]
                self.adapter_pages -= self._pages(sequence.adapter)

    def remaining_tokens(self) -> dict[AdapterId, int]:
        """By adapter, the most tokens that one of its sequences may still need."""
        most: dict[AdapterId, int] = {}
        for sequence in self._sequences:
            if sequence.adapter is not None:
                left = sequence.request.sampling.max_tokens - sequence.num_output + sequence.num_uncomputed
                most[sequence.adapter] = max(left, most.get(sequence.adapter, 0))
        return most

    def check(self) -> None:
        """Prove that order, counts and states agree."""
        keys = [sequence.key for sequence in self._sequences]
        assert keys == sorted(set(keys)), "running sequences are out of order"
        assert all(sequence.state == "running" for sequence in self._sequences), "a running sequence is not marked so"
        counts = {adapter: sum(s.adapter == adapter for s in self._sequences) for adapter in self.by_adapter}
        assert counts == self.by_adapter, "adapter counts are off"
        assert self.adapter_pages == sum(map(self._pages, counts)), "adapter pages are off"
        with_adapter = sum(sequence.adapter is not None for sequence in self._sequences)
        assert sum(counts.values()) == with_adapter, "an adapter is not counted"
