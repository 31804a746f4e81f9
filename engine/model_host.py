"""One loaded model and its parts, and what a turn of the engine does with them. Owned by the engine thread unless a line says otherwise."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from engine.adapters.loader import ReadDone
from engine.batch_rows import step_record
from engine.control import Victim
from engine.errors import LoradeckError, NotReady
from engine.lifecycle import AdapterLifecycle
from engine.observer import Observer
from engine.process import release_team
from engine.prover import Prover
from engine.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.adapters.eviction import EvictionPolicy
    from engine.adapters.loader import CopyDone
    from engine.adapters.residency import AdapterResidency
    from engine.budget import DeviceBudget
    from engine.cache.prefix import PrefixCache
    from engine.clock import Clock
    from engine.control import Control
    from engine.loop import EngineLoop
    from engine.memory.arena import Arena
    from engine.memory.pages import PagePool
    from engine.memory.reclaim import Reclaimer
    from engine.models.spec import ModelSpec
    from engine.plan import StepPlan
    from engine.registry.catalog import Catalog
    from engine.runner.runner import Runner
    from engine.scheduler.scheduler import Scheduler
    from engine.settings import Settings
    from engine.snapshot import DeviceSnapshot
    from engine.stream import TokenStream
    from engine.telemetry.publisher import Publisher
    from engine.tokenizing.chat_template import ChatTemplate
    from engine.tokenizing.tokenizer import Tokenizer

T = TypeVar("T")
PUBLISH_EVERY_S = 0.25
HEARTBEAT_S = 1.0
STEPS_REMEMBERED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """What ``engine.assemble`` builds and a host runs."""

    settings: Settings
    clock: Clock
    spec: ModelSpec
    base_root: str
    budget: DeviceBudget
    device: DeviceSnapshot
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    arena: Arena
    pool: PagePool
    prefix: PrefixCache
    residency: AdapterResidency
    reclaimer: Reclaimer
    policy: EvictionPolicy
    scheduler: Scheduler
    runner: Runner
    publisher: Publisher
    catalog: Catalog
    context_tokens: int
    """Prompt and output of the longest sequence that the base allows."""
    scratch_pages: list[int]
    """Arena pages outside the pool, for probes."""


class ModelHost:
    """The parts, wired: ``tick``, ``run`` and ``idle`` are the loop's; ``call`` is for other threads."""

    def __init__(self, parts: HostParts) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.pool = parts.pool
        self.prefix = parts.prefix
        self.residency = parts.residency
        self.scheduler = parts.scheduler
        self.runner = parts.runner
        self.publisher = parts.publisher
        self.catalog = parts.catalog
        self.lifecycle = AdapterLifecycle(self)
        self.prover = Prover(self)
        self.observer = Observer(self)
        self.requests = Requests(self)
        self.control: Control
        self.is_dirty = True
        """Whether something changed since the last snapshot."""
        self._loop: EngineLoop
        self._published_s = float("-inf")
        self._recent_steps: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._step = 0

    def attach(self, loop: EngineLoop) -> None:
        """Meet the thread that will run this host; before it starts."""
        self._loop = loop

    def call(self, command: Callable[[], T]) -> T:
        """Run a command on the engine thread and wait for it. Any thread."""
        return self._loop.call(command)

    def post(self, command: Callable[[], None]) -> None:
        """Run a command on the engine thread before its next plan. Any thread."""
        self._loop.post(command)

    def report(self, done: ReadDone | CopyDone) -> None:
        """A loader thread has finished a job. Any thread."""
        self.post(lambda: self._settle_load(done))

    def _settle_load(self, done: ReadDone | CopyDone) -> None:
        if isinstance(done, ReadDone):
            self.residency.loads.on_read(done)
        else:
            self.residency.loads.on_copied(done)

    def tick(self, now_s: float) -> None:
        """Before a plan: loads that wait for pages, first probes, pins that end."""
        self.residency.loads.tick(now_s)
        self.prover.run_pending()

    def run(self, plan: StepPlan) -> None:
        """Compute a plan and pass its tokens on."""
        self._step = plan.step
        started_s = self.clock.now_s()
        self.parts.arena.zero(self.pool.take_unwiped())
        result = self.runner.run(plan)
        num_tokens = self.requests.settle(plan, result)
        duration_s = self.clock.now_s() - started_s
        self.residency.loads.note_step(duration_s)
        self._recent_steps.append(duration_s)
        self.publisher.record_step(step_record(plan, started_s, duration_s), output_tokens=num_tokens)
        self.requests.outbox.post()
        self.is_dirty = True
        self.publish(self.clock.now_s())

    def idle(self, now_s: float) -> None:
        """Nothing to compute: answer what ended, let the workers go, re-check one adapter, keep the snapshot fresh."""
        self.requests.outbox.post()
        release_team()
        if not self.prover.recheck_one() and now_s - self._published_s >= HEARTBEAT_S:
            self.is_dirty = True
            if __debug__:
                self.check()
        self.publish(now_s)

    def publish(self, now_s: float) -> None:
        """Replace the snapshot when something changed, at most four times a second."""
        if self.is_dirty and now_s - self._published_s >= PUBLISH_EVERY_S:
            self.control.expire_pins()
            self.is_dirty = False
            self._published_s = now_s
            self.publisher.publish(self.observer.snapshot(self._step, now_s))

    def check(self) -> None:
        """Every pool's invariants."""
        self.pool.check()
        self.prefix.check()
        self.residency.check()

    def fail_running(self, error: LoradeckError) -> None:
        """A step failed: end what was in it, and go on."""
        running = {sequence.request.id for sequence in self.scheduler.running}
        self.requests.fail([stream for stream in self.requests.streams if stream.request.id in running], error)
        self.requests.outbox.post()

    def shut_down(self) -> None:
        """The thread ends: so do all requests."""
        self.requests.fail(self.requests.streams, NotReady("The engine is stopping."))
        self.requests.outbox.post()

    def close(self) -> None:
        """Let go of loader threads and files; after the thread has ended."""
        self.residency.loads.loader.stop()
        self.catalog.close()

    def abandon(self, stream: TokenStream, error: LoradeckError) -> None:
        """End a stream without the engine thread's help, which stops the work for it if it ever goes on. The watchdog's thread only."""
        if not stream.loop.is_closed():
            stream.loop.call_soon_threadsafe(stream.deliver, [error])
        self._loop.post(lambda: self.requests.cancel(stream))

    # What control and registration compute with

    @property
    def base_name(self) -> str:
        """The base's public name. Any thread."""
        return self.parts.spec.name

    @property
    def free_pages(self) -> int:
        """Pages that an adapter could take without anyone leaving."""
        return min(self.pool.num_free, self.usable_pages - self.kv_floor_pages - self.pool.count("adapter"))

    @property
    def max_sequence_tokens(self) -> int:
        """Prompt and output of the longest sequence now: the context, or what the arena holds beside adapters. Any thread."""
        return min(self.parts.context_tokens, self.parts.reclaimer.kv_ceiling * self.parts.arena.layout.page_tokens)

    @property
    def usable_pages(self) -> int:
        """Pages of the arena. Any thread."""
        return self.pool.num_pages

    @property
    def kv_floor_pages(self) -> int:
        """Pages that adapters leave to KV. Any thread."""
        return self.parts.reclaimer.floors.kv

    @property
    def most_adapter_pages(self) -> int:
        """Pages of the largest adapter that could ever come to the device. Any thread."""
        return self.usable_pages - max(self.kv_floor_pages, 1)

    @property
    def num_waiting(self) -> int:
        """Sequences that wait. Any thread."""
        return len(self.scheduler.waiting) + len(self.scheduler.held)

    @property
    def median_step_s(self) -> float | None:
        """Of the last steps; None before the first."""
        return median(self._recent_steps) if self._recent_steps else None

    def victims_for(self, num_pages: int) -> tuple[Victim, ...]:
        """Who would leave if an adapter of so many pages came now; nothing changes."""
        under_floor = self.usable_pages - self.kv_floor_pages - self.pool.count("adapter")
        short = num_pages - min(self.pool.num_free + self.prefix.num_idle, under_floor)
        chosen = copy.copy(self.parts.policy).victims(self.residency.evictable(), short)
        now_s = self.clock.now_s()
        return tuple(
            Victim(
                id=victim.adapter,
                alias=self.residency.entry(victim.adapter).alias,
                pages=victim.pages,
                idle_s=now_s - victim.last_used_s,
            )
            for victim in chosen
        )
