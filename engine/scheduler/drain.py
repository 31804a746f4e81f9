"""No adapter starves: past a threshold, running adapters drain for one that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.ids import AdapterId, TenantId
    from engine.scheduler.resources import Resources
    from engine.scheduler.running import RunningSet


class Drain:
    """At most one adapter, the ``waiter``, is drained for. Owned by the engine thread.

    While it waits, no adapter enters the batch but it, and those in ``draining`` admit nothing new. The base is never held back: KV
    leaves pages for the pinned adapters and the largest other one (``Reclaimer.kv_ceiling``), so the waiter fits once the rest drained.

    Drains are in turn for the first in order (the least served tenant's, so that a heavy tenant's many adapters do not keep out a light
    one) and for the one that has waited longest. The bound: once an adapter is among the first in order that a plan asks for, a sequence
    of it enters within ``drain_after_s`` + 2 · (n + 1) · (R + L), with n adapters that have waited longer than it, R the time
    that the requests which drain still need and L that of a load. For one that comes first in order, n is at most 1.
    """

    def __init__(self, resources: Resources, *, running: RunningSet) -> None:
        self.waiter: AdapterId | None = None
        self.draining: set[AdapterId] = set()
        self._gate = resources.gate
        self._reclaimer = resources.reclaimer
        self._running = running
        self._limits = resources.limits
        self._blocked_since: dict[AdapterId, float] = {}  # in order of time
        self._blocked_tenant: dict[AdapterId, TenantId] = {}
        self._first_overdue: AdapterId | None = None
        self._longest_is_next = False

    def forbids(self, adapter: AdapterId) -> bool:
        """Whether new sequences of it must wait for the drain to end."""
        if self.waiter is None or adapter == self.waiter:
            return False
        return adapter in self.draining or not self._running.has_adapter(adapter)

    def note_blocked(self, adapter: AdapterId, now_s: float, *, tenant: TenantId) -> None:
        """A tenant's request for it waits for pages or for a place in the batch, maybe since earlier."""
        since_s = self._blocked_since.get(adapter)
        if since_s is None:
            since_s = self._blocked_since[adapter] = now_s
            self._blocked_tenant[adapter] = tenant
        if self._first_overdue is None and now_s - since_s >= self._limits.drain_after_s:
            self._first_overdue = adapter

    def note_admitted(self, adapter: AdapterId) -> None:
        """A sequence of it runs."""
        self._blocked_since.pop(adapter, None)
        self._blocked_tenant.pop(adapter, None)
        if adapter == self._first_overdue:
            self._first_overdue = None
        if adapter == self.waiter:
            self.waiter = None
            self.draining.clear()

    def note_gone(self, adapter: AdapterId) -> None:
        """Nothing waits for it any more."""
        self.note_admitted(adapter)

    def review(self, now_s: float) -> None:
        """Once a plan: start a drain that is due, and see that enough adapters drain."""
        if self.waiter is None:
            self._start_overdue(now_s)
        self._first_overdue = None
        if self.waiter is not None:
            self._choose(self.waiter, now_s)

    def _start_overdue(self, now_s: float) -> None:
        longest = next(iter(self._blocked_since), None)
        if longest is None or now_s - self._blocked_since[longest] < self._limits.drain_after_s:
            return
        self.waiter = longest if self._longest_is_next or self._first_overdue is None else self._first_overdue
        self._longest_is_next = not self._longest_is_next

    def _choose(self, waiter: AdapterId, now_s: float) -> None:
        self.draining.intersection_update(self._running.adapters)
        if self._running.num_adapters - len(self.draining) >= self._limits.max_adapters:
            self._drain_next(self._running.adapters)
        if (
            self._gate.state(waiter) == "device"
            or self._gate.want(waiter, now_s, tenant=self._blocked_tenant.get(waiter)) != "adapter_pages"
        ):
            return
        coming = sum(self._gate.pages(adapter) for adapter in self.draining if not self._gate.is_pinned(adapter))
        short = self._gate.pages(waiter) - self._reclaimer.adapter_room() - coming
        if short <= 0:
            return
        unpinned = tuple(adapter for adapter in self._running.adapters if not self._gate.is_pinned(adapter))
        while short > 0:
            drained = self._drain_next(unpinned)
            if drained is None:
                return
            short -= self._gate.pages(drained)

    def _drain_next(self, adapters: tuple[AdapterId, ...]) -> AdapterId | None:
        left = [adapter for adapter in adapters if adapter not in self.draining]
        if not left:
            return None
        remaining = self._running.remaining_tokens()
        soonest = min(left, key=lambda adapter: (remaining[adapter], adapter))
        self.draining.add(soonest)
        return soonest
