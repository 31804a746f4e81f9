"""What the pages read: one sampler for the process, fifteen minutes of history, the latest events."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from console.history import Ring, spark_path
from console.shelf import Shelves
from engine import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine import AdapterRow, Engine, EngineSnapshot, Event, RatesSnapshot, Settings, StepRecord, TenantId

STALE_AFTER_S: Final = 5.0
"""A snapshot older than this is shown greyed, with its age."""
EVENTS_KEPT: Final = 200
TENANTS_KEPT: Final = 50
SPARK_REDRAW_TICKS: Final = 5


def kv_share(snapshot: EngineSnapshot) -> float | None:
    """KV in use as a share of the arena; None before there is an arena."""
    memory = snapshot.memory
    arena_bytes = memory.arena_pages * memory.page_bytes
    return memory.kv_used_bytes / arena_bytes if arena_bytes else None


SERIES: Final[dict[str, Callable[[EngineSnapshot], float | None]]] = {
    "requests": lambda s: s.rates.requests_per_s,
    "output": lambda s: s.rates.output_tokens_per_s,
    "ttft": lambda s: s.rates.ttft_p95_s,
    "itl": lambda s: s.rates.itl_p95_s,
    "waiting": lambda s: len(s.requests.waiting),
    "kv": kv_share,
    "hits": lambda s: s.rates.hit_rate,
    "errors": lambda s: s.rates.errors,
    "queue": lambda s: s.rates.queue_mean_s,
    "load": lambda s: s.rates.adapter_load_mean_s,
    "prefill": lambda s: s.rates.prefill_mean_s,
    "decode": lambda s: s.rates.decode_per_token_s,
}


class Feeds:
    """One feed for those who may see everything, and one for each tenant that somebody looked at."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._of: dict[TenantId | None, Feed] = {None: Feed(engine)}

    def of(self, tenant: TenantId | None) -> Feed:
        """What its people may see."""
        if tenant not in self._of:
            self._of[tenant] = Feed(self._engine, tenant)
            self._of[tenant].sample()
        return self._of[tenant]

    def sample(self) -> None:
        """Take one look for all."""
        for feed in list(self._of.values()):
            feed.sample()


class Feed:
    """The engine as pages see it. Sampled once a second on the asyncio loop; pages pull at their own pace."""

    def __init__(self, engine: Engine, tenant: TenantId | None = None) -> None:
        self._engine = engine
        self._tenant = tenant
        """Whose numbers it shows; None is everybody's."""
        self.snapshot: EngineSnapshot = EMPTY
        self.rings: dict[str, Ring] = {name: Ring() for name in SERIES}
        self.events: deque[tuple[int, Event]] = deque(maxlen=EVENTS_KEPT)
        self.lost_events = 0
        self.ticks = 0
        self.shelves = Shelves()
        self.adapters_revision = 0
        """Rises when any adapter row changes, so that a table need not compare thousands of rows."""
        self._sparks: dict[tuple[str, int, int], tuple[int, str]] = {}

    @property
    def settings(self) -> Settings:
        """What the operator chose at the start."""
        return self._engine.settings

    def sample(self) -> None:
        """Take one look at the engine: the only periodic reader in the process."""
        snapshot = self._engine.snapshot(self._tenant)
        self.adapters_revision += self.shelves.update(snapshot.adapters)
        self.snapshot = snapshot
        self.ticks += 1
        for name, read in SERIES.items():
            self.rings[name].append(read(snapshot))
        self._sample_tenants(snapshot)
        self._take_events()

    def steps(self, after: int) -> tuple[StepRecord, ...]:
        """Forward passes after step number ``after``."""
        return self._engine.steps(after) if self._tenant is None else ()

    def adapter(self, ref: str) -> AdapterRow | None:
        """The row of a version id or an alias; None when it is not registered."""
        return self.shelves.find(ref)

    @property
    def age_s(self) -> float:
        """Seconds since the engine took the latest snapshot."""
        return max(0.0, time.time() - self.snapshot.taken_unix)

    @property
    def is_stale(self) -> bool:
        """Whether the numbers are too old to be shown as present."""
        return self.snapshot.taken_unix > 0 and self.age_s > STALE_AFTER_S

    def spark(self, name: str, width: int, height: int) -> str:
        """The path of a sparkline; redrawn every few seconds, shared by all pages."""
        ring = self.rings.get(name)
        if ring is None:
            return ""
        turn = self.ticks // SPARK_REDRAW_TICKS
        key = (name, width, height)
        drawn = self._sparks.get(key)
        if drawn is None or drawn[0] != turn:
            drawn = (turn, spark_path(ring.buckets(), width, height))
            self._sparks[key] = drawn
        return drawn[1]

    def _sample_tenants(self, snapshot: EngineSnapshot) -> None:
        for row in snapshot.tenants[:TENANTS_KEPT]:
            ring = self.rings.setdefault(tenant_series(row.tenant), Ring())
            ring.append(row.ttft_p95_s)

    def _take_events(self) -> None:
        after = self.events[-1][0] if self.events else 0
        if self.snapshot.event and self.snapshot.event == after:
            return
        page = self._engine.events(after, tenant=self._tenant)
        self.events.extend(page.events)
        self.lost_events += page.lost


def tenant_series(tenant: str) -> str:
    """The name of a tenant's ring."""
    return f"tenant:{tenant}"


def stages(rates: RatesSnapshot) -> tuple[tuple[str, float | None], ...]:
    """The parts of the time to the first token, in the order they happen."""
    return (("queue", rates.queue_mean_s), ("load", rates.adapter_load_mean_s), ("prefill", rates.prefill_mean_s))
