"""The product's scheduler, pages, residency and eviction on a simulated clock: only the model and the copies are made up."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from engine.adapters.entry import HostCopy
from engine.adapters.eviction import EvictionPolicy
from engine.adapters.layout import ImageTable
from engine.adapters.loader import CopyDone
from engine.adapters.loads import LoadPipeline
from engine.adapters.residency import AdapterResidency
from engine.adapters.table import AdapterTable, TableDims
from engine.adapters.tiers import DiskTier
from engine.cache.prefix import PrefixCache
from engine.ids import AdapterId, RequestId, TenantId
from engine.memory.pages import PagePool
from engine.memory.reclaim import Floors, Reclaimer
from engine.request import Request, SamplingParams
from engine.scheduler.scheduler import Decision, Scheduler
from engine.sequence import Sequence
from engine.version import VersionRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal

    from engine.adapters.loader import Loader
    from engine.plan import StepPlan
    from engine.scheduler.budget import Limits
    from engine.scheduler.fairness import Fairness

STEP_MS, SEQUENCE_MS, ADAPTER_MS, PROMPT_TOKEN_MS, PAGE_MS = 3.5, 0.02, 0.018, 0.02, 0.5
MODEL = (
    f"a step takes {STEP_MS} + {SEQUENCE_MS} · sequences + {ADAPTER_MS} · adapters + {PROMPT_TOKEN_MS} · prompt tokens ms, "
    f"a load {PAGE_MS} ms a page"
)
IDLE_S = 0.005
SMALL = TableDims(num_layers=1, max_rank=16, page_elems=16, in_features=(16,) * 7, out_features=(16,) * 7)


@dataclass(slots=True, kw_only=True)
class SimulatedClock:
    """Moves when told."""

    seconds: float = 0.0

    def now_s(self) -> float:
        """Seconds it was moved to."""
        return self.seconds


class SimulatedLoader:
    """Copies that end when their time has come."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._due: list[tuple[float, AdapterId]] = []

    def copy(self, adapter: AdapterId, copy: HostCopy, pages: list[int]) -> None:
        """Begin."""
        del copy
        heapq.heappush(self._due, (self._clock.now_s() + PAGE_MS / 1e3 * len(pages), adapter))

    def ended(self) -> list[CopyDone]:
        """Those that are done by now."""
        done = []
        while self._due and self._due[0][0] <= self._clock.now_s():
            at_s, adapter = heapq.heappop(self._due)
            done.append(CopyDone(adapter=adapter, started_s=at_s, copied_s=at_s))
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that will come."""

    at_s: float
    tenant: str
    prompt_tokens: int
    new_tokens: int
    adapter: str | None = None


class World:
    """One engine without a model: every sampled token is a made-up one. ``sizes`` are pages of adapters, all in host memory."""

    def __init__(
        self,
        *,
        num_pages: int,
        sizes: Mapping[str, int],
        limits: Limits,
        fairness: Fairness = "vtc",
        eviction: Literal["gdsf", "lru"] = "gdsf",
        floors: Floors | None = None,
    ) -> None:
        self.clock = SimulatedClock()
        self.pool = PagePool(num_pages)
        self.loader = SimulatedLoader(self.clock)
        table = AdapterTable(SMALL, num_slots=limits.max_adapters + 1, device=torch.device("cpu"))
        self.residency = AdapterResidency(
            pool=self.pool, table=table, disk=DiskTier(Path(), pin_memory=False), host_budget_bytes=1, clock=self.clock
        )
        prefix = PrefixCache(self.pool, page_tokens=limits.page_tokens)
        self.reclaimer = Reclaimer(
            pool=self.pool,
            prefix=prefix,
            adapters=self.residency,
            policy=EvictionPolicy(eviction),
            floors=floors or Floors(kv=0, adapter=0),
            reserve=self.residency.reserve,
        )
        self._bring_in(sizes)
        self.scheduler = Scheduler(
            pool=self.pool, prefix=prefix, reclaimer=self.reclaimer, gate=self.residency, limits=limits, fairness=fairness
        )
        self.sequences: list[Sequence] = []
        self.num_tokens = 0
        """Tokens computed."""

    def _bring_in(self, sizes: Mapping[str, int]) -> None:
        make_room = self.reclaimer.make_adapter_room
        loader = cast("Loader", self.loader)  # all are in host memory: only ``copy`` is ever asked for
        self.residency.loads = LoadPipeline(self.residency, pool=self.pool, loader=loader, clock=self.clock, make_room=make_room)
        for name, pages in sizes.items():
            self.residency.add(version(name, pages))
            self.residency.host.put(AdapterId(name), HostCopy(table=NOTHING, pages=torch.empty(0, dtype=torch.uint8)))

    def submit(self, ask: Ask) -> None:
        """Queue a request; no two prompts start alike."""
        key = len(self.sequences)
        adapter = None if ask.adapter is None else AdapterId(ask.adapter)
        sampling = SamplingParams(max_tokens=ask.new_tokens)
        prompt = (key, *range(ask.prompt_tokens - 1))
        request = Request(
            id=RequestId(str(key)), model=ask.adapter or "base", prompt_ids=prompt, sampling=sampling, tenant=TenantId(ask.tenant)
        )
        sequence = Sequence(
            key=key, request=request, index=0, adapter=adapter, token_ids=list(prompt), num_prompt=len(prompt), arrived_s=ask.at_s
        )
        self.sequences.append(sequence)
        if adapter is not None:
            self.residency.entry(adapter).users += 1
        self.scheduler.add(sequence, self.clock.now_s())

    def run(self, asks: Iterable[Ask], *, until_s: float) -> None:
        """Serve what comes until then; what is not finished stays so."""
        coming = sorted(asks, key=lambda ask: ask.at_s)[::-1]
        while self.clock.seconds < until_s:
            while coming and coming[-1].at_s <= self.clock.seconds:
                self.submit(coming.pop())
            self.bring()
            plan = self.scheduler.plan(self.clock.seconds)
            if plan.is_empty:
                following_s = coming[-1].at_s if coming else until_s
                self.clock.seconds = min(following_s, self.clock.seconds + IDLE_S) if len(self.scheduler.waiting) else following_s
                continue
            self.clock.seconds += step_s(plan)
            self.settle(plan)

    def bring(self) -> float:
        """Let loads that are done arrive, and those that wait for pages try again. Real seconds that it took."""
        ended = self.loader.ended()
        began_s = time.perf_counter()
        for done in ended:
            self.residency.loads.on_copied(done)
        self.residency.loads.tick(self.clock.seconds)
        return time.perf_counter() - began_s

    def settle(self, plan: StepPlan) -> float:
        """One token a sampling row; a sequence ends with its last. Real seconds that the scheduler took."""
        self.pool.take_unwiped()
        self.num_tokens += plan.num_tokens
        decisions: list[Decision] = []
        for row in plan.rows:
            last = row.samples and row.sequence.num_output + 1 >= row.sequence.request.sampling.max_tokens
            decisions.append((row, row.sequence.key if row.samples else None, "length" if last else None))
            if last and row.sequence.adapter is not None:
                self.residency.entry(row.sequence.adapter).users -= 1
        began_s = time.perf_counter()
        self.scheduler.settle(plan, decisions, self.clock.seconds)
        return time.perf_counter() - began_s

    def first_token_s(self, tenants: Iterable[str]) -> list[float]:
        """Seconds to the first token of every request of these; of one that has none yet, how long it has waited, which is less."""
        chosen = set(tenants)
        now_s = self.clock.seconds
        return [
            (now_s if sequence.first_token_s is None else sequence.first_token_s) - sequence.arrived_s
            for sequence in self.sequences
            if sequence.tenant in chosen
        ]


def step_s(plan: StepPlan) -> float:
    """How long the model takes for a plan."""
    adapters = {row.sequence.adapter for row in plan.rows} - {None}
    prompt_tokens = sum(row.num_tokens for row in plan.rows if row.phase == "prefill")
    milliseconds = STEP_MS + SEQUENCE_MS * len(plan.rows) + ADAPTER_MS * len(adapters) + PROMPT_TOKEN_MS * prompt_tokens
    return milliseconds / 1e3


NOTHING = ImageTable(
    ranks=np.zeros((1, 7), dtype=np.int32), a_blocks=np.full((1, 7, 1), -1, dtype=np.int64), b_blocks=np.full((1, 7, 1), -1, dtype=np.int64)
)


def version(name: str, pages: int) -> VersionRecord:
    """An adapter of so many pages, as if it had been registered and proven."""
    return VersionRecord(
        id=AdapterId(name),
        digest=name,
        tenant=TenantId("default"),
        source="",
        base_digest="",
        rank=8 * pages,
        modules=(),
        num_matched=0,
        num_pages=pages,
        bytes=pages,
        base_proof="declared",
        registered_unix=0.0,
        fingerprint=(1.0,),
    )
