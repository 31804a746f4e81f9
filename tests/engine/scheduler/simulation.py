"""A scheduler over fakes: every step takes one clock tick and yields one made-up token a sampling row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.adapters.eviction import EvictionPolicy
from engine.allowance import Allowance
from engine.cache.prefix import PrefixCache
from engine.ids import DEFAULT_TENANT, AdapterId, RequestId, TenantId
from engine.memory.pages import PagePool
from engine.memory.reclaim import Floors, Reclaimer
from engine.request import Request, SamplingParams
from engine.scheduler.budget import Limits
from engine.scheduler.fairness import Fairness
from engine.scheduler.scheduler import Decision, Scheduler
from engine.sequence import Sequence
from tests.fakes import FakeClock, ScriptedGate

if TYPE_CHECKING:
    from engine.plan import StepPlan

PAGE_TOKENS = 4
STEP_S = 0.01
FLOORS = Floors(kv=8, adapter=8)


def limits(**changed: float) -> Limits:
    """Small budgets, some of them changed."""
    values = {
        "max_sequences": 8,
        "max_step_tokens": 32,
        "prefill_chunk": 8,
        "max_adapters": 2,
        "page_tokens": PAGE_TOKENS,
        "drain_after_s": 0.2,
    }
    return Limits(**(values | changed))  # type: ignore[arg-type]


class Simulation:
    """Counts what was run; ``check`` runs after every step."""

    def __init__(
        self,
        *,
        num_pages: int = 64,
        sizes: dict[str, int] | None = None,
        load_s: float = 0.0,
        floors: Floors = FLOORS,
        bounds: Limits | None = None,
        fairness: Fairness = "vtc",
    ) -> None:
        self.bounds = bounds or limits()
        self.clock = FakeClock()
        self.pool = PagePool(num_pages)
        self.prefix = PrefixCache(self.pool, page_tokens=PAGE_TOKENS)
        self.gate = ScriptedGate(
            pool=self.pool,
            clock=self.clock,
            sizes={AdapterId(name): size for name, size in (sizes or {}).items()},
            num_slots=self.bounds.max_adapters,
            load_s=load_s,
        )
        self.reclaimer = self.gate.reclaimer = Reclaimer(
            pool=self.pool,
            prefix=self.prefix,
            adapters=self.gate,
            policy=EvictionPolicy("gdsf"),
            floors=floors,
            reserve=self.gate.reserve,
        )
        self.scheduler = Scheduler(
            pool=self.pool, prefix=self.prefix, reclaimer=self.reclaimer, gate=self.gate, limits=self.bounds, fairness=fairness
        )
        self.finished: dict[int, Sequence] = {}
        self.plans: list[StepPlan] = []
        self.allowances: dict[TenantId, Allowance] = {}
        self._next_key = 0

    def submit(
        self,
        prompt: int | list[int],
        *,
        max_tokens: int = 4,
        adapter: str | None = None,
        tenant: str = DEFAULT_TENANT,
        key: str | None = None,
        priority: int = 0,
        n: int = 1,
        echo_logprobs: bool = False,
    ) -> list[Sequence]:
        """Queue a request's choices. A number is a prompt of so many tokens that nobody else has."""
        first = self._next_key
        prompt_ids = [1000 * first + i for i in range(prompt)] if isinstance(prompt, int) else prompt
        request = Request(
            id=RequestId(f"r{first}"),
            model=adapter or "base",
            prompt_ids=tuple(prompt_ids),
            sampling=SamplingParams(max_tokens=max_tokens, n=n),
            tenant=TenantId(tenant),
            key=key,
            priority=priority,
            echo_logprobs=echo_logprobs,
        )
        sequences = [
            Sequence(
                key=first + index,
                request=request,
                index=index,
                adapter=None if adapter is None else AdapterId(adapter),
                token_ids=list(prompt_ids),
                num_prompt=len(prompt_ids),
                arrived_s=self.clock.now_s(),
            )
            for index in range(n)
        ]
        self._next_key += n
        for sequence in sequences:
            self.scheduler.add(sequence, self.clock.now_s())
        return sequences

    def allow(self, tenant: str, **limits: float) -> None:
        """Set one tenant's allowance."""
        self.allowances[TenantId(tenant)] = Allowance(**limits)  # type: ignore[arg-type]
        self.scheduler.set_allowances(tenants=self.allowances, keys={})

    def step(self) -> StepPlan:
        """Plan, run, settle, and check everything."""
        self.gate.tick()
        plan = self.scheduler.plan(self.clock.now_s())
        self.pool.take_unwiped()
        self.check()
        places = [(row.phase, self.slot(row.sequence), row.sequence.key) for row in plan.rows]
        assert places == sorted(places), "rows are out of order"
        self.clock.advance(STEP_S)
        self.finished |= {sequence.key: sequence for sequence in self.settle(plan)}
        self.plans.append(plan)
        self.check()
        return plan

    def slot(self, sequence: Sequence) -> int:
        """Of its adapter; the base is after all."""
        return self.bounds.max_adapters if sequence.adapter is None else self.gate.slot(sequence.adapter)

    def settle(self, plan: StepPlan) -> list[Sequence]:
        """One token a sampling row; a sequence ends at its ``max_tokens``."""
        decisions: list[Decision] = []
        for row in plan.rows:
            sequence = row.sequence
            covered = len(sequence.pages) * PAGE_TOKENS
            assert sequence.state == "finished" or covered >= row.start + row.num_tokens, "planned tokens have no page"
            last = row.samples and sequence.num_output + 1 >= sequence.request.sampling.max_tokens
            decisions.append((row, sequence.key if row.samples else None, "length" if last else None))
        return self.scheduler.settle(plan, decisions, self.clock.now_s())

    def run(self, *, max_steps: int = 2000) -> int:
        """Step until nothing runs or waits; how many steps it took."""
        for steps in range(max_steps):
            if not self.busy:
                return steps
            self.step()
        waiting = [(s.key, s.wait_reason) for s in self.scheduler.waiting]
        running = [(s.key, s.num_tokens) for s in self.scheduler.running]
        raise AssertionError(f"after {max_steps} steps waiting {waiting}, running {running}")

    @property
    def busy(self) -> bool:
        """Whether anything is not finished."""
        return bool(len(self.scheduler.running) or len(self.scheduler.waiting) or len(self.scheduler.held))

    def check(self) -> None:
        """Every part agrees with every other."""
        self.scheduler.check()
        self.gate.check()
        self.bounds_hold()

    def bounds_hold(self) -> None:
        """The budgets are kept."""
        running = self.scheduler.running
        assert len(running) <= self.bounds.max_running
        assert running.num_adapters <= self.bounds.max_adapters
        assert self.pool.count("adapter") <= self.pool.num_pages - self.reclaimer.floors.kv
        if self.plans:
            assert self.plans[-1].num_tokens <= self.bounds.max_step_tokens

    def tokens_run(self, adapter: str | None) -> int:
        """Rows of an adapter that sampled."""
        return sum(row.samples for plan in self.plans for row in plan.rows if row.sequence.adapter == adapter)
