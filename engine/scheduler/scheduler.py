"""Decides what the next forward pass computes, and takes in what it gave."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from engine.memory.pages import kv_owner
from engine.scheduler.admission import Admission
from engine.scheduler.allowances import Allowances
from engine.scheduler.budget import StepDraft
from engine.scheduler.drain import Drain
from engine.scheduler.fairness import OUTPUT_TOKEN, PAGE_STEP, FairShare
from engine.scheduler.preemption import Continuation
from engine.scheduler.queues import WaitingQueue, charge
from engine.scheduler.resources import Resources
from engine.scheduler.running import RunningSet
from engine.scheduler.siblings import Siblings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.allowance import Allowance
    from engine.cache.prefix import PrefixCache
    from engine.ids import RequestId, TenantId
    from engine.memory.pages import PagePool
    from engine.memory.reclaim import Reclaimer
    from engine.plan import PlannedRow, StepPlan
    from engine.request import FinishReason
    from engine.scheduler.budget import Limits
    from engine.scheduler.fairness import Fairness
    from engine.scheduler.gate import AdapterGate
    from engine.sequence import Sequence

TURNS = 64
"""Lanes that cannot run that a plan comes to before it only looks for those that can, and the most adapters that it asks for."""

Decision = tuple["PlannedRow", "int | None", "FinishReason | None"]
"""What one planned row came to: the new token, if it yields one, and why its sequence ends, if it does."""


class Scheduler:
    """Continuous batching with chunked prefill: decode rows first, then who is next by ``fairness``, within the budgets and allowances.

    Owned by the engine thread.

    The same calls with the same times give the same plans.
    """

    def __init__(
        self,
        *,
        pool: PagePool,
        prefix: PrefixCache,
        reclaimer: Reclaimer,
        gate: AdapterGate,
        limits: Limits,
        fairness: Fairness = "vtc",
    ) -> None:
        self.step = 0
        self.shares = FairShare(fairness)
        self.allowances = Allowances(gate.pages)
        self.running = RunningSet(gate.pages)
        self.waiting = WaitingQueue(self.shares)
        self.held = Siblings()
        self._resources = Resources(
            pool=pool, prefix=prefix, reclaimer=reclaimer, gate=gate, limits=limits, shares=self.shares, allowances=self.allowances
        )
        self._pool = pool
        self._prefix = prefix
        self._reclaimer = reclaimer
        self._gate = gate
        self._limits = limits
        self._requests: dict[RequestId, list[Sequence]] = {}
        self._now_s = 0.0
        self.drain = Drain(self._resources, running=self.running)
        self._continuation = Continuation(self._resources, running=self.running, requeue=self._requeue)
        self._admission = Admission(self._resources, running=self.running, waiting=self.waiting, drain=self.drain)

    def plan(self, now_s: float) -> StepPlan:
        """The next step; empty when nothing can run. Call ``settle`` with what it gave before the next one."""
        self._now_s = now_s
        with self._reclaimer.one_order():
            return self._plan(now_s)

    def _plan(self, now_s: float) -> StepPlan:
        self._reclaimer.refresh()
        draft = StepDraft(
            step=self.step + 1,
            tokens_left=self._limits.max_step_tokens,
            prefill_chunk=self._limits.prefill_chunk,
            turns=TURNS,
            lookahead=min(TURNS, self._limits.max_adapters),
            lookahead_pages=self._reclaimer.adapter_ceiling,
        )
        self.drain.review(now_s)
        self._continuation.extend(draft)
        draft.offer_seats(self._limits.max_running - len(self.running))
        draft.lookahead_pages -= self.running.adapter_pages
        self._admission.admit(draft, now_s)
        for sequence in draft.stranded:
            self.finish(sequence, "error", now_s)
        if draft.rows:
            self.step += 1
        return draft.finish()

    def settle(self, plan: StepPlan, decisions: Iterable[Decision], now_s: float) -> list[Sequence]:
        """Take in one decision for each row of the plan: who has ended. Rows whose sequence was cancelled meanwhile are skipped."""
        self._now_s = now_s
        ended = []
        work: defaultdict[TenantId, float] = defaultdict(float)
        for planned, (row, token_id, finish_reason) in zip(plan.rows, decisions, strict=True):
            assert row is planned, "decisions do not follow the plan"
            sequence, phase, start, num_tokens, _ = row
            if sequence.state != "running":
                continue
            share = PAGE_STEP * len(sequence.pages)
            sequence.num_computed = end = start + num_tokens
            if token_id is not None:
                share += OUTPUT_TOKEN
                sequence.token_ids.append(token_id)
            work[sequence.request.tenant] += share
            if phase == "prefill":
                if token_id is not None and sequence.first_token_s is None:
                    sequence.first_token_s = now_s
                if start < sequence.num_prompt <= end:
                    self._prefix.publish(sequence)
                    self._release_siblings(sequence, now_s)
            if finish_reason is not None:
                self.finish(sequence, finish_reason, now_s)
                ended.append(sequence)
        self.shares.charge_all(work)
        return ended

    def set_allowances(self, *, tenants: Mapping[TenantId, Allowance], keys: Mapping[str, Allowance]) -> None:
        """Replace every limit and weight, from the next plan on; what runs is not stopped for it."""
        self.allowances.replace(tenants=tenants, keys=keys)
        self.shares.set_weights({tenant: allowance.weight for tenant, allowance in tenants.items()})

    def most_tokens(self, tenant: TenantId, key: str | None) -> int:
        """Prompt and output of the longest sequence that a tenant and key may have. Any thread."""
        pages = self.allowances.most_kv_pages(tenant, key)
        return self._limits.page_tokens * (self._reclaimer.kv_ceiling if pages is None else min(pages, self._reclaimer.kv_ceiling))

    def can_ever_fit(self, num_tokens: int) -> bool:
        """Whether a sequence of so many tokens, output included, could run if it were alone."""
        self._reclaimer.refresh()
        return self._resources.pages_for(num_tokens) <= self._reclaimer.kv_ceiling

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Queue a sequence that ``can_ever_fit``. Choices of one request come in order of ``index``."""
        request = sequence.request
        self._requests.setdefault(request.id, []).append(sequence)
        if sequence.index == 0 and request.sampling.n > 1 and sequence.num_prompt > self._limits.page_tokens:
            self.held.lead(sequence)
        if sequence.index > 0 and self.held.can_hold(sequence):
            sequence.waiting_since_s = now_s
            sequence.wait_reason = "batch_full"
            self.held.hold(sequence)
        else:
            self.waiting.push(sequence, now_s)

    def cancel(self, request_id: RequestId, now_s: float) -> list[Sequence]:
        """End every choice of a request that still runs or waits; which. Everything they hold is given back at once."""
        sequences = list(self._requests.get(request_id, ()))
        for sequence in sequences:
            sequence.cancelled = True
            self.finish(sequence, "cancelled", now_s)
        return sequences

    def finish(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        """End a sequence, running or waiting: pages, lease and place come back. A completed one leaves its pages to the prefix cache."""
        if sequence.state == "running":
            self._leave_batch(sequence)
            if reason in {"stop", "length"}:
                self._prefix.donate(sequence)
            else:
                self._prefix.drop(sequence)
        elif not self.held.remove(sequence):
            self.waiting.remove(sequence, now_s)
            if sequence.adapter is not None and not self.waiting.has_adapter(sequence.adapter):
                self.drain.note_gone(sequence.adapter)
        sequence.state = "finished"
        self._release_siblings(sequence, now_s)
        siblings = self._requests[sequence.request.id]
        siblings.remove(sequence)
        if not siblings:
            del self._requests[sequence.request.id]

    def check(self) -> None:
        """Prove that pool, prefix cache, queues and sequences agree: nothing is leaked and nothing is held twice."""
        self._pool.check()
        self._prefix.check()
        self.running.check()
        self.waiting.check()
        self.allowances.check(list(self.running))
        own = [page for sequence in self.running for page in sequence.pages[sequence.num_shared :]]
        assert len(own) == len(set(own)), "two sequences own a page"
        assert len(own) == self._pool.count("kv"), "KV pages leaked"
        for sequence in self.running:
            assert sequence.leased == (sequence.adapter is not None), "a running sequence lacks its lease"
            assert sequence.num_computed <= len(sequence.pages) * self._limits.page_tokens, "pages do not cover what is computed"
            owner = kv_owner(sequence.key)
            assert all(self._pool.owner(page) == owner for page in sequence.pages[sequence.num_shared :]), "owner is off"

    def _release_siblings(self, leader: Sequence, now_s: float) -> None:
        for sequence in self.held.let_go(leader):
            charge(sequence, now_s)
            self.waiting.push(sequence, now_s, returns=False)

    def _leave_batch(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.allowances.leave(sequence)
        if sequence.adapter is not None:
            self._gate.release(sequence.adapter)
            sequence.leased = False

    def _requeue(self, sequence: Sequence) -> None:
        """Preempted: it waits again, before its tenant's later ones, and computes anew what the prefix cache does not keep."""
        self._leave_batch(sequence)
        self._prefix.drop(sequence)
        sequence.num_computed = 0
        self.waiting.push(sequence, self._now_s, returns=False)
