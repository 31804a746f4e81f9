"""Waiting sequences enter the batch, in order; each that cannot is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.ids import LOAD_REASONS
from engine.memory.pages import kv_owner
from engine.plan import Stall
from engine.scheduler.fairness import LOADED_PAGE, PROMPT_TOKEN
from engine.scheduler.queues import rank, rank_of_lane
from engine.scheduler.turns import Turns

if TYPE_CHECKING:
    from engine.ids import AdapterId, TenantId, WaitReason
    from engine.scheduler.budget import StepDraft
    from engine.scheduler.drain import Drain
    from engine.scheduler.queues import Group, Lane, Rank, WaitingQueue
    from engine.scheduler.resources import Resources
    from engine.scheduler.running import RunningSet
    from engine.sequence import Sequence

RUNNING_PER_SPARE_PAGE = 4
"""Admission leaves one page free for so many running sequences, so that it does not cause a preemption at once."""


class Admission:
    """Owned by the engine thread."""

    def __init__(self, resources: Resources, *, running: RunningSet, waiting: WaitingQueue, drain: Drain) -> None:
        self._pool = resources.pool
        self._prefix = resources.prefix
        self._reclaimer = resources.reclaimer
        self._gate = resources.gate
        self._limits = resources.limits
        self._shares = resources.shares
        self._allowances = resources.allowances
        self._resources = resources
        self._running = running
        self._waiting = waiting
        self._drain = drain
        self._load_for: dict[AdapterId, tuple[TenantId, int]] = {}
        """Whose request each load was begun for, and its pages, until it is used. Charged then: before, others could take its pages."""

    def admit(self, draft: StepDraft, now_s: float) -> None:
        """Add rows for waiting sequences in order. What blocks a head blocks its lane only, except that nobody overtakes to KV pages.

        The first lanes in order have a turn, until as many adapters as can run have been asked for; after them only those that could
        run at once. So a step costs what it does, however many wait.
        """
        self._keep_begun_loads(draft)
        drained_for = self._drained_for()
        if drained_for is not None:
            self._turn(drained_for, draft, now_s)
        self._take_turns(Turns(self._waiting.order), draft, now_s)
        if not draft.is_full and draft.kv_waiter is None:
            draft.turns, draft.lookahead = len(self._waiting.lanes), 0
            self._take_turns(Turns(lanes_of=self._could_run(draft)), draft, now_s)
        self._waiting.let_rest(draft.had_turn, draft.rest_reasons(), now_s)

    def _keep_begun_loads(self, draft: StepDraft) -> None:
        """Loads that were begun and not used yet keep their pages, whoever is first now: else loads evict what requests still wait for."""
        waited_for, resident = self._waiting.by_adapter, self._gate.resident
        for adapter, (_, num_pages) in list(self._load_for.items()):
            if adapter in waited_for and (adapter in resident or self._gate.state(adapter) == "loading"):
                draft.lookahead_pages -= num_pages
            else:
                del self._load_for[adapter]

    def _take_turns(self, turns: Turns, draft: StepDraft, now_s: float) -> None:
        while draft.turns > 0 and (lane := turns.next()) is not None:
            if lane in draft.had_turn:
                continue
            if self._turn(lane, draft, now_s):
                turns.again(lane)
            elif lane.group in draft.over_limit:
                turns.skip_group()
            elif draft.lookahead <= 0 and draft.is_full:
                return

    def _turn(self, lane: Lane, draft: StepDraft, now_s: float) -> bool:
        """Let the head of a lane in, or tell the lane why not."""
        reason = self._blocker(lane, draft, now_s)
        if reason is None:
            self._enter(lane.head, draft, now_s)
            return True
        draft.had_turn.add(lane)
        draft.groups_seen.add(lane.group)
        draft.turns -= reason != "tenant_limit"
        if lane.reason != reason or lane.untold:
            self._refuse(lane, reason, now_s)
        return False

    def _drained_for(self) -> Lane | None:
        """The lane that running adapters drained for, once its adapter is there and has a place: whoever is first, a seat is its."""
        adapter = self._drain.waiter
        if adapter is None or self._gate.state(adapter) != "device" or self._running.num_adapters >= self._limits.max_adapters:
            return None
        lanes = self._waiting.by_adapter.get(adapter, {})
        return min(lanes.values(), key=lambda lane: (self._shares.standing(lane.tenant), rank(lane.head)), default=None)

    def _could_run(self, draft: StepDraft) -> dict[Group, list[tuple[Rank, Lane]]]:
        """Lanes that had no turn and whose adapter is there, by group."""
        has_place = self._running.num_adapters < self._limits.max_adapters
        adapters: list[AdapterId | None] = [None, *(self._gate.resident if has_place else self._running.adapters)]
        waited_for = self._waiting.by_adapter
        found: dict[Group, list[tuple[Rank, Lane]]] = {}
        for adapter in filter(waited_for.__contains__, adapters):
            for lane in waited_for[adapter].values():
                if lane not in draft.had_turn and lane.group not in draft.over_limit:
                    found.setdefault(lane.group, []).append((rank(lane.head), lane))
        for lanes in found.values():
            lanes.sort(key=rank_of_lane)
        return found

    def _refuse(self, lane: Lane, reason: WaitReason, now_s: float) -> None:
        newly = lane.blame(reason, now_s)
        if lane.adapter is not None and reason == "adapter_loading":
            for sequence in newly:
                self._gate.want(lane.adapter, now_s, request=sequence.request.id, tenant=sequence.tenant)

    def _blocker(self, lane: Lane, draft: StepDraft, now_s: float) -> WaitReason | None:
        """Why its head cannot enter now; None: ``_enter`` will succeed."""
        sequence = lane.head
        if self._allowances.has_limits and self._is_over_limit(lane, sequence, draft):
            return "tenant_limit"
        full = draft.is_full
        if lane.adapter is not None and not (full and draft.lookahead <= 0):
            reason = self._adapter_blocker(lane, lane.adapter, draft, now_s)
            if reason is not None:
                return reason
        if full:
            return draft.reason("seats", lane)
        if draft.kv_waiter is None and not self._has_pages_for(sequence, draft):
            draft.kv_waiter = sequence
        return None if draft.kv_waiter is None else draft.reason("pages", lane)

    def _is_over_limit(self, lane: Lane, sequence: Sequence, draft: StepDraft) -> bool:
        """Whether its tenant or its key may have no more; the lanes of a tenant that is at its limit have no further turn."""
        num_pages = self._resources.pages_for(sequence.num_tokens)
        if self._allowances.excess_of(sequence, num_pages) is not None:
            draft.stranded.append(sequence)
            return True
        short = self._allowances.who_lacks_kv(sequence, num_pages)
        tenant = self._allowances.tenant(sequence.tenant)
        if (short is tenant or not tenant.has_room(None, 0)) and lane.group.tenant is not None:
            draft.over_limit.add(lane.group)
        return short is not None or not self._allowances.has_room(sequence)

    def _adapter_blocker(self, lane: Lane, adapter: AdapterId, draft: StepDraft, now_s: float) -> WaitReason | None:
        running = self._running.by_adapter
        entered = adapter in running
        has_place = entered or len(running) < self._limits.max_adapters
        if not has_place and draft.lookahead <= 0:
            return draft.reason("places", lane)  # far behind: its load and its claim to a place wait for its turn
        if self._drain.waiter is not None and self._drain.forbids(adapter):
            return "draining"
        resident = adapter in self._gate.resident and self._gate.state(adapter) == "device"
        if entered:
            return None if resident else self._gate.want(adapter, now_s, tenant=lane.tenant)
        draft.lookahead -= 1
        if draft.lookahead_pages >= 0 and adapter not in self._load_for:
            draft.lookahead_pages -= self._gate.pages(adapter)
        reason = None if resident else self._load(lane, adapter, draft, now_s)
        if has_place:
            return reason
        self._drain.note_blocked(adapter, now_s, tenant=lane.tenant)
        return draft.reason("places", lane)

    def _load(self, lane: Lane, adapter: AdapterId, draft: StepDraft, now_s: float) -> WaitReason:
        """Bring it nearer, unless those before it already are as many as can run or as large as fits: loads would evict one another."""
        if draft.lookahead < 0:
            return draft.reason("places", lane)
        reason: WaitReason = "adapter_pages"
        if draft.lookahead_pages >= 0 or adapter in self._load_for:
            begins = self._gate.state(adapter) != "loading"
            reason = self._gate.want(adapter, now_s, tenant=lane.tenant)
            if begins and reason != "draining":
                self._load_for[adapter] = (lane.tenant, self._gate.pages(adapter))
        if reason == "adapter_pages":
            self._drain.note_blocked(adapter, now_s, tenant=lane.tenant)
        return reason

    def _has_pages_for(self, sequence: Sequence, draft: StepDraft) -> bool:
        num_pages = self._resources.pages_for(sequence.num_tokens)
        if num_pages > self._reclaimer.kv_ceiling:
            draft.stranded.append(sequence)
            return False
        needed = num_pages + -(-len(self._running) // RUNNING_PER_SPARE_PAGE)
        if self._reclaimer.can_make_kv_room(needed, besides=sequence.adapter):
            return True  # without any page that it could share: those that others read only make it easier
        shared = self._prefix.lookup(sequence)
        fits = self._reclaimer.can_make_kv_room(needed - len(shared), besides=sequence.adapter)
        self._prefix.release(shared)
        return fits

    def _enter(self, sequence: Sequence, draft: StepDraft, now_s: float) -> None:
        if sequence.adapter is not None:
            self._gate.lease(sequence.adapter)
            sequence.leased = True
            sequence.slot = self._gate.slot(sequence.adapter)
            self._drain.note_admitted(sequence.adapter)
            if sequence.adapter in self._load_for:
                tenant, num_pages = self._load_for.pop(sequence.adapter)
                self._shares.charge(tenant, LOADED_PAGE * num_pages)
        shared = self._prefix.lookup(sequence)
        needed = self._resources.pages_for(sequence.num_tokens) - len(shared)
        has_room = self._reclaimer.make_kv_room(needed, by=sequence.tenant)
        assert has_room, "admitted without room"
        sequence.pages = shared + self._pool.take(needed, owner=kv_owner(sequence.key))
        sequence.num_shared = len(shared)
        sequence.num_computed = len(shared) * self._limits.page_tokens
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now_s
            sequence.first_step = draft.step
            sequence.num_cached = sequence.num_computed
            self._shares.charge(sequence.tenant, PROMPT_TOKEN * sequence.num_uncomputed)
        self._waiting.remove(sequence, now_s)
        self._note_stall(sequence, draft, now_s)
        self._running.add(sequence)
        self._allowances.enter(sequence)
        draft.enter(sequence)

    def _note_stall(self, sequence: Sequence, draft: StepDraft, now_s: float) -> None:
        """It enters: say for whom it had to wait, if it was for what somebody's requests had taken."""
        if sequence.gave_way is not None:
            by, since_s = sequence.gave_way
            sequence.gave_way = None
            draft.stalled.append(Stall(sequence, by, now_s - since_s))
        elif sequence.adapter is not None and sequence.first_step == draft.step:
            displaced_by = self._gate.displaced_by(sequence.adapter)
            waited_s = sum(sequence.waits.get(reason, 0.0) for reason in LOAD_REASONS)
            if displaced_by is not None and waited_s > 0:
                draft.stalled.append(Stall(sequence, displaced_by, waited_s))
