"""Waiting sequences enter the batch, in order; each that cannot is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.memory.pages import kv_owner
from engine.scheduler.queues import Turns

if TYPE_CHECKING:
    from engine.ids import AdapterId, WaitReason
    from engine.scheduler.budget import StepDraft
    from engine.scheduler.drain import Drain
    from engine.scheduler.queues import Lane, Order, WaitingQueue
    from engine.scheduler.resources import Resources
    from engine.scheduler.running import RunningSet
    from engine.sequence import Sequence

RUNNING_PER_SPARE_PAGE = 4
"""Admission leaves one page free for so many running sequences, so that it does not cause a preemption at once."""


class Admission:
    """Owned by the engine thread."""

    def __init__(self, resources: Resources, *, running: RunningSet, waiting: WaitingQueue, drain: Drain, order: Order) -> None:
        self._pool = resources.pool
        self._prefix = resources.prefix
        self._reclaimer = resources.reclaimer
        self._gate = resources.gate
        self._limits = resources.limits
        self._resources = resources
        self._running = running
        self._waiting = waiting
        self._drain = drain
        self._order = order

    def admit(self, draft: StepDraft, now_s: float) -> None:
        """Add rows for waiting sequences in order. What blocks a head blocks its lane only, except that nobody overtakes to KV pages."""
        turns = Turns(self._waiting.lanes.values(), self._order)
        while (lane := turns.next()) is not None:
            head = lane.head
            reason = self._blocker(head, draft, now_s)
            if reason is None:
                self._enter(head, draft, now_s)
                turns.again(lane)
            elif lane.must_hear(reason):
                self._refuse(lane, reason, now_s)

    def _refuse(self, lane: Lane, reason: WaitReason, now_s: float) -> None:
        newly = lane.blame(reason, now_s)
        if lane.adapter is not None and reason == "adapter_loading":
            for sequence in newly:
                self._gate.want(lane.adapter, now_s, request=sequence.request.id)

    def _blocker(self, sequence: Sequence, draft: StepDraft, now_s: float) -> WaitReason | None:
        """Why it cannot enter now; None: ``_enter`` will succeed."""
        full = len(self._running) >= self._limits.max_running or not draft.tokens_left
        if sequence.adapter is not None and not (full and draft.lookahead <= 0):
            reason = self._adapter_blocker(sequence.adapter, draft, now_s)
            if reason is not None:
                return reason
        if full:
            return "batch_full"
        if draft.kv_waiter is None and not self._has_pages_for(sequence, draft):
            draft.kv_waiter = sequence
        return None if draft.kv_waiter is None else "kv_pages"

    def _adapter_blocker(self, adapter: AdapterId, draft: StepDraft, now_s: float) -> WaitReason | None:
        entered = self._running.has_adapter(adapter)
        has_place = entered or self._running.num_adapters < self._limits.max_adapters
        if not has_place and draft.lookahead <= 0:
            return "batch_full"  # far behind: its load and its claim to a place wait for its turn
        if self._drain.forbids(adapter):
            return "draining"
        resident = self._gate.state(adapter) == "device"
        if entered:
            return None if resident else self._gate.want(adapter, now_s)
        draft.lookahead -= 1
        draft.lookahead_pages -= self._gate.pages(adapter)
        reason = None if resident else self._load(adapter, draft, now_s)
        if has_place:
            return reason
        self._drain.note_blocked(adapter, now_s)
        return "batch_full"

    def _load(self, adapter: AdapterId, draft: StepDraft, now_s: float) -> WaitReason:
        """Bring it nearer, unless those before it already are as many as can run or as large as fits: loads would evict one another."""
        if draft.lookahead < 0:
            return "batch_full"
        reason = self._gate.want(adapter, now_s) if draft.lookahead_pages >= 0 else "adapter_pages"
        if reason == "adapter_pages":
            self._drain.note_blocked(adapter, now_s)
        return reason

    def _has_pages_for(self, sequence: Sequence, draft: StepDraft) -> bool:
        if self._resources.pages_for(sequence.num_tokens) > self._reclaimer.kv_ceiling:
            draft.stranded.append(sequence)
            return False
        shared = self._prefix.lookup(sequence)
        needed = self._resources.pages_for(sequence.num_tokens) - len(shared) + -(-len(self._running) // RUNNING_PER_SPARE_PAGE)
        fits = self._reclaimer.can_make_kv_room(needed, besides=sequence.adapter)
        self._prefix.release(shared)
        return fits

    def _enter(self, sequence: Sequence, draft: StepDraft, now_s: float) -> None:
        self._waiting.remove(sequence, now_s)
        if sequence.adapter is not None:
            self._gate.lease(sequence.adapter)
            sequence.leased = True
            self._drain.note_admitted(sequence.adapter)
        shared = self._prefix.lookup(sequence)
        needed = self._resources.pages_for(sequence.num_tokens) - len(shared)
        has_room = self._reclaimer.make_kv_room(needed)
        assert has_room, "admitted without room"
        sequence.pages = shared + self._pool.take(needed, owner=kv_owner(sequence.key))
        sequence.num_shared = len(shared)
        sequence.num_computed = len(shared) * self._limits.page_tokens
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now_s
            sequence.first_step = draft.step
            sequence.num_cached = sequence.num_computed
        self._running.add(sequence)
        draft.add(sequence)
