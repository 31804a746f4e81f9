"""Choices of one request wait until the first has computed their common prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ids import RequestId
    from engine.sequence import Sequence


class Siblings:
    """Choices held back for the first of their request. Owned by the engine thread."""

    def __init__(self) -> None:
        self._leaders: dict[RequestId, Sequence] = {}
        self._held: dict[RequestId, list[Sequence]] = {}

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    def __iter__(self) -> Iterator[Sequence]:
        for held in self._held.values():
            yield from held

    def lead(self, sequence: Sequence) -> None:
        """The first of several choices starts."""
        self._leaders[sequence.request.id] = sequence
        self._held[sequence.request.id] = []

    def can_hold(self, sequence: Sequence) -> bool:
        """Whether its request's first choice is still to compute the prompt."""
        return sequence.request.id in self._leaders

    def hold(self, sequence: Sequence) -> None:
        """Keep it until ``let_go``."""
        self._held[sequence.request.id].append(sequence)

    def let_go(self, leader: Sequence) -> list[Sequence]:
        """The first choice has computed the prompt, or ended: who may start. Empty for any other sequence."""
        if self._leaders.get(leader.request.id) is not leader:
            return []
        del self._leaders[leader.request.id]
        return self._held.pop(leader.request.id)

    def remove(self, sequence: Sequence) -> bool:
        """Take one out; False when it is not held."""
        held = self._held.get(sequence.request.id, [])
        if sequence not in held:
            return False
        held.remove(sequence)
        return True
