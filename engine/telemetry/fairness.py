"""Who was served how much of late, how much slower than alone, and who displaced whom. Written and viewed by the engine thread."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from engine.fairness_view import DisplacementRow, FairnessSnapshot, ServedWork, ShareRow
from engine.telemetry.meters import LabelCounter, RollingMeter, RollingSums

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.ids import TenantId
    from engine.request import RequestRecord

    Pair = tuple[TenantId, TenantId]

WINDOW_S = 60.0
MARK_EVERY_S = 5.0
COUNTED_SHARE = 0.5
"""Of the window: a tenant that had requests waiting for less got what it asked for, and says nothing about fairness."""


class FairnessMeter:
    """Counters since the start are for any thread."""

    def __init__(self, *, started_s: float, tenant_cap: int = 64) -> None:
        self.evictions_caused = LabelCounter(cap=tenant_cap)
        """Of other tenants' adapters, by who caused it."""
        self.stalls_caused_s = LabelCounter(cap=tenant_cap)
        """Of other tenants' requests, by who caused it."""
        self._evictions: RollingSums[Pair] = RollingSums(window_s=WINDOW_S)
        self._preemptions: RollingSums[Pair] = RollingSums(window_s=WINDOW_S)
        self._stalls_s: RollingSums[Pair] = RollingSums(window_s=WINDOW_S)
        self._slowdowns: dict[TenantId, RollingMeter] = {}
        self._marks: deque[tuple[float, dict[TenantId, ServedWork]]] = deque([(started_s, {})])
        """What was served until when; the first is where the window begins."""

    def evicted(self, *, by: TenantId, of: TenantId, now_s: float) -> None:
        """An adapter of ``of`` left the device for pages that ``by`` needed."""
        self._evictions.add((by, of), 1, now_s=now_s)
        if of != by:
            self.evictions_caused.add(by)

    def preempted(self, *, by: TenantId, of: TenantId, now_s: float) -> None:
        """A sequence gave its pages to another one."""
        self._preemptions.add((by, of), 1, now_s=now_s)

    def stalled(self, seconds: float, *, by: TenantId, of: TenantId, now_s: float) -> None:
        """A request has waited so long for what another one took."""
        self._stalls_s.add((by, of), seconds, now_s=now_s)
        if of != by:
            self.stalls_caused_s.add(by, seconds)

    def record_request(self, record: RequestRecord, *, now_s: float) -> None:
        """A request ended."""
        times = slowdown(record)
        if times is not None:
            self._slowdowns.setdefault(record.tenant, RollingMeter(window_s=WINDOW_S)).observe(times, now_s=now_s)

    def view(self, served: Iterable[ServedWork], now_s: float) -> FairnessSnapshot:
        """The window as it stands; ``served`` is everybody's work since the start."""
        known = {work.tenant: work for work in served}
        self._mark(known, now_s)
        rows = tuple(row for name in sorted({*known, *self._slowdowns}) if (row := self._share(name, known.get(name), now_s)) is not None)
        rates = [row.served_per_s for row in rows if row.is_counted and row.served_per_s is not None]
        return FairnessSnapshot(window_s=WINDOW_S, jain=jain(rates), tenants=rows, displaced=self._displaced(now_s))

    def _mark(self, known: dict[TenantId, ServedWork], now_s: float) -> None:
        if now_s - self._marks[-1][0] >= MARK_EVERY_S:
            self._marks.append((now_s, known))
        while len(self._marks) > 1 and now_s - self._marks[1][0] >= WINDOW_S:
            self._marks.popleft()

    def _share(self, tenant: TenantId, work: ServedWork | None, now_s: float) -> ShareRow | None:
        """None for a tenant that did nothing in the window."""
        since_s, before = self._marks[0]
        work = work or ServedWork(tenant=tenant, weight=1.0, served=0.0, backlogged_s=0.0)
        start = before.get(tenant)
        served = work.served - (0.0 if start is None else start.served)
        backlogged_s = work.backlogged_s - (0.0 if start is None else start.backlogged_s)
        slowdowns = self._slowdowns.get(tenant) or RollingMeter(window_s=WINDOW_S)
        requests = slowdowns.count(now_s)
        if not requests:
            self._slowdowns.pop(tenant, None)
        if not requests and backlogged_s <= 0:
            return None
        return ShareRow(
            tenant=tenant,
            weight=work.weight,
            served_per_s=served / backlogged_s if backlogged_s > 0 else None,
            backlogged_s=backlogged_s,
            is_counted=0 < COUNTED_SHARE * (now_s - since_s) <= backlogged_s,
            requests=requests,
            slowdown=slowdowns.mean(now_s),
            slowdown_p95=slowdowns.percentile(0.95, now_s=now_s),
        )

    def _displaced(self, now_s: float) -> tuple[DisplacementRow, ...]:
        evictions, preemptions, stalls_s = (sums.read(now_s) for sums in (self._evictions, self._preemptions, self._stalls_s))
        rows = [
            DisplacementRow(
                by=pair[0],
                of=pair[1],
                evictions=int(evictions.get(pair, 0)),
                preemptions=int(preemptions.get(pair, 0)),
                stalled_ms=stalls_s.get(pair, 0.0) * 1e3,
            )
            for pair in {**evictions, **preemptions, **stalls_s}
        ]
        return tuple(sorted(rows, key=lambda row: (-row.stalled_ms, -row.evictions, row.by, row.of)))


def jain(values: Sequence[float]) -> float | None:
    """Jain's index (Jain, Chiu, Hawe 1984) of what each got; None when nobody got anything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def slowdown(record: RequestRecord) -> float | None:
    """Latency ÷ what the same request would have taken without waits: its prefill and decode phases, less the waits inside them.

    Waits inside them are those after a preemption. What the phases took longer because others were in the same steps, and what was
    computed anew after a preemption, counts as served. None for a request that did not come to its own end.
    """
    if record.finish_reason not in {"stop", "length"} or record.prefill_s is None or record.decode_s is None or record.ttft_s is None:
        return None
    phases_s = record.prefill_s + record.decode_s
    if record.preemptions:
        waited_before_s = record.ttft_s - record.prefill_s
        phases_s -= max(0.0, sum(seconds for _, seconds in record.waits) - waited_before_s)
    return max(1.0, record.e2e_s / phases_s) if phases_s > 0 else None
