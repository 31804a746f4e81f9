"""Running sequences go on; when pages run out, the most served tenant's newest gives its own back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.memory.pages import kv_owner
from engine.plan import Preemption

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.scheduler.allowances import Holding
    from engine.scheduler.budget import StepDraft
    from engine.scheduler.resources import Resources
    from engine.scheduler.running import RunningSet
    from engine.sequence import Sequence


class Continuation:
    """Plans the sequences that already run. Owned by the engine thread.

    By claim: the oldest of all, then the least served tenant's, oldest first. Each may take the pages of those after it, none of which has
    a row yet, so the oldest always progresses and nobody gives way to a tenant that was served more. Pages of a prompt are taken when it
    is admitted, so only decoding asks for more.
    """

    def __init__(self, resources: Resources, *, running: RunningSet, requeue: Callable[[Sequence], None]) -> None:
        self._resources = resources
        self._pool = resources.pool
        self._reclaimer = resources.reclaimer
        self._shares = resources.shares
        self._allowances = resources.allowances
        self._running = running
        self._requeue = requeue

    def extend(self, draft: StepDraft) -> None:
        """Add rows for running sequences: those that decode first, then those whose prompt is not complete."""
        running = list(self._running)
        decoding, filling, short = self._sort_out(running)
        has_room = not short or self._reclaimer.can_make_kv_room(len(short))
        if not has_room:
            running = self._by_claim(running)
            decoding, filling, short = self._sort_out(running)
        if not has_room or (short and self._allowances.has_limits):
            self._decode_by_claim(decoding, short, draft, running)
        else:
            self._take_pages(list(short.values()))
            draft.add_decodes(decoding)
        if len(filling) > 1:
            filling = self._by_claim(filling)
        for sequence in filling:
            if sequence.state == "running" and draft.tokens_left:
                draft.add(sequence)

    def _decode_by_claim(self, decoding: list[Sequence], short: dict[int, Sequence], draft: StepDraft, running: list[Sequence]) -> None:
        """One after the other: what one takes may end what comes after it."""
        going_on: list[Sequence] = []
        for sequence in decoding:
            if (
                len(going_on) < draft.tokens_left
                and sequence.state == "running"
                and (sequence.key not in short or self._cover(sequence, draft, running))
            ):
                going_on.append(sequence)
        draft.add_decodes(going_on)

    def _sort_out(self, running: list[Sequence]) -> tuple[list[Sequence], list[Sequence], dict[int, Sequence]]:
        """Those that decode, those whose prompt is not complete, and by key those that decode and lack a page."""
        page_tokens = self._resources.limits.page_tokens
        decoding, filling = [], []
        short: dict[int, Sequence] = {}
        for sequence in running:
            num_tokens = len(sequence.token_ids)
            if num_tokens - sequence.num_computed > 1 or num_tokens <= sequence.num_prompt:
                filling.append(sequence)
                continue
            decoding.append(sequence)
            if num_tokens > len(sequence.pages) * page_tokens:
                short[sequence.key] = sequence
        return decoding, filling, short

    def _by_claim(self, sequences: list[Sequence]) -> list[Sequence]:
        oldest, *others = sequences
        standings = {tenant: self._shares.standing(tenant) for tenant in {sequence.tenant for sequence in others}}
        others.sort(key=lambda sequence: (standings[sequence.tenant], sequence.key))
        return [oldest, *others]

    def _cover(self, sequence: Sequence, draft: StepDraft, by_claim: list[Sequence]) -> bool:
        """Give the sequence the page it lacks, at the cost of its tenant's newest or of the last by claim if need be."""
        while True:
            holding = self._allowances.who_lacks_kv(sequence, 1) if self._allowances.has_limits else None
            if holding is None and self._reclaimer.make_kv_room(1, by=sequence.tenant):
                break
            victim = self._last(by_claim) if holding is None else self._newest_in(holding)
            if victim is sequence and (holding.running if holding is not None else len(self._running)) == 1:
                self._stall(sequence, draft, over_limit=holding is not None)
                return False
            self._preempt(victim, draft, by=sequence)
            if victim is sequence:
                return False
        self._own_page(sequence)
        return True

    def _take_pages(self, short: list[Sequence]) -> None:
        """There is room for the page that each lacks. Who gets it matters only where an adapter leaves for it."""
        together = self._reclaimer.has_kv_room(len(short)) and self._reclaimer.make_kv_room(len(short))
        for sequence in short:
            has_room = together or self._reclaimer.make_kv_room(1, by=sequence.tenant)
            assert has_room, "a page was promised"
            self._own_page(sequence)

    def _own_page(self, sequence: Sequence) -> None:
        sequence.pages += self._pool.take(1, owner=kv_owner(sequence.key))
        self._allowances.grow(sequence, 1)

    def _last(self, by_claim: list[Sequence]) -> Sequence:
        return next(sequence for sequence in reversed(by_claim) if sequence.state == "running")

    def _newest_in(self, holding: Holding) -> Sequence:
        return next(sequence for sequence in reversed(list(self._running)) if self._allowances.shares(sequence, holding))

    def _preempt(self, victim: Sequence, draft: StepDraft, *, by: Sequence) -> None:
        draft.preempted.append(Preemption(victim, len(victim.pages) - victim.num_shared, by))
        victim.preemptions += 1
        self._requeue(victim)
        victim.gave_way = (by.tenant, victim.waiting_since_s)

    def _stall(self, sequence: Sequence, draft: StepDraft, *, over_limit: bool) -> None:
        # Alone, and no page: a load holds it for the moment, or pins or a limit leave less than this sequence needs.
        if over_limit or len(sequence.pages) >= self._reclaimer.kv_ceiling:
            draft.stranded.append(sequence)
