"""Running sequences go on, oldest first; when pages run out, the newest gives its own back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.memory.pages import kv_owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.scheduler.budget import StepDraft
    from engine.scheduler.resources import Resources
    from engine.scheduler.running import RunningSet
    from engine.sequence import Sequence


class Continuation:
    """Plans the sequences that already run. Owned by the engine thread.

    The oldest always progresses: it may take the pages of every other one, none of which has a row yet. Pages of a prompt are taken when
    it is admitted, so only decoding asks for more.
    """

    def __init__(self, resources: Resources, *, running: RunningSet, requeue: Callable[[Sequence], None]) -> None:
        self._resources = resources
        self._pool = resources.pool
        self._reclaimer = resources.reclaimer
        self._running = running
        self._requeue = requeue

    def extend(self, draft: StepDraft) -> None:
        """Add rows for running sequences: those that decode first, then those whose prompt is not complete."""
        filling = []
        for sequence in self._running:
            if sequence.num_uncomputed > 1 or not sequence.num_output:
                filling.append(sequence)
            elif sequence.state == "running" and draft.tokens_left and self._cover(sequence, draft):
                draft.add(sequence)
        for sequence in filling:
            if sequence.state == "running" and draft.tokens_left:
                draft.add(sequence)

    def _cover(self, sequence: Sequence, draft: StepDraft) -> bool:
        """Give the sequence a page for its next token, at the newest's cost if need be."""
        if not self._resources.missing_pages(sequence):
            return True
        while not self._reclaimer.make_kv_room(1):
            if self._running.newest is not sequence:
                self._preempt(self._running.newest, draft)
            elif len(self._running) > 1:
                self._preempt(sequence, draft)
                return False
            else:
                self._stall(sequence, draft)
                return False
        sequence.pages += self._pool.take(1, owner=kv_owner(sequence.key))
        return True

    def _preempt(self, victim: Sequence, draft: StepDraft) -> None:
        draft.preempted.append((victim, len(victim.pages) - victim.num_shared))
        victim.preemptions += 1
        self._requeue(victim)

    def _stall(self, sequence: Sequence, draft: StepDraft) -> None:
        # Alone, and no page: a load holds it for the moment, or pins have grown past what this sequence needs.
        if len(sequence.pages) >= self._reclaimer.kv_ceiling:
            draft.stranded.append(sequence)
