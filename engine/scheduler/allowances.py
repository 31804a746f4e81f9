"""What each tenant and each key may hold of the engine, and what it holds. Exact: nobody is ever one over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.allowance import UNLIMITED, Allowance, Excess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.ids import AdapterId, TenantId
    from engine.sequence import Sequence


@dataclass(slots=True, kw_only=True, eq=False)
class Holding:
    """What the running sequences of one tenant or key hold. Owned by the engine thread."""

    allowance: Allowance = UNLIMITED
    running: int = 0
    kv_pages: int = 0
    """A page that two of its sequences read counts twice."""
    adapter_pages: int = 0
    adapters: dict[AdapterId, int] = field(default_factory=dict)
    """How many run with each."""

    def has_room(self, adapter: AdapterId | None, adapter_pages: int) -> bool:
        """Whether one more may run, with that adapter."""
        allowed = self.allowance
        if allowed.max_running is not None and self.running >= allowed.max_running:
            return False
        if adapter is None or adapter in self.adapters or allowed.max_adapter_pages is None:
            return True
        return self.adapter_pages + adapter_pages <= allowed.max_adapter_pages

    def has_kv_room(self, num_pages: int) -> bool:
        """Whether it may hold so many pages more."""
        return self.allowance.max_kv_pages is None or self.kv_pages + num_pages <= self.allowance.max_kv_pages


class Allowances:
    """Owned by the engine thread, but for ``most_kv_pages`` and ``excess``. ``pages`` tells the pages of an adapter."""

    def __init__(self, pages: Callable[[AdapterId], int]) -> None:
        self._pages = pages
        self._tenants: dict[TenantId, Holding] = {}
        self._keys: dict[str, Holding] = {}
        self.has_limits = False
        """Whether anybody has a limit that could make a request wait."""

    def replace(self, *, tenants: Mapping[TenantId, Allowance], keys: Mapping[str, Allowance]) -> None:
        """From now on these hold, and nobody else has a limit; nothing running is stopped for it."""
        for tenant in {*self._tenants, *tenants}:
            self.tenant(tenant).allowance = tenants.get(tenant, UNLIMITED)
        for key in {*self._keys, *keys}:
            self._keys.setdefault(key, Holding()).allowance = keys.get(key, UNLIMITED)
        holdings = (*self._tenants.values(), *self._keys.values())
        self.has_limits = any(makes_wait(holding.allowance) for holding in holdings)

    def tenant(self, tenant: TenantId) -> Holding:
        """What one tenant holds."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = Holding()
        return found

    def has_room(self, sequence: Sequence) -> bool:
        """Whether its tenant and its key may have one more running, with its adapter."""
        adapter = sequence.adapter
        num_pages = 0 if adapter is None else self._pages(adapter)
        return all(holding.has_room(adapter, num_pages) for holding in self._of(sequence))

    def who_lacks_kv(self, sequence: Sequence, num_pages: int) -> Holding | None:
        """Which of its tenant and its key may not hold so many pages more; None: both may."""
        return next((holding for holding in self._of(sequence) if not holding.has_kv_room(num_pages)), None)

    def excess(self, tenant: TenantId, key: str | None, *, kv_pages: int, adapter_pages: int) -> Excess | None:
        """The limit that so many pages are over even if nothing else ran; None: they could be held. Any thread."""
        holdings = (("tenant", tenant, self._tenants.get(tenant)), ("key", key, None if key is None else self._keys.get(key)))
        for kind, name, holding in holdings:
            allowed = UNLIMITED if holding is None else holding.allowance
            if allowed.max_kv_pages is not None and kv_pages > allowed.max_kv_pages:
                return Excess(f"{kind} {name}", "max_kv_pages", kv_pages, allowed.max_kv_pages)
            if allowed.max_adapter_pages is not None and adapter_pages > allowed.max_adapter_pages:
                return Excess(f"{kind} {name}", "max_adapter_pages", adapter_pages, allowed.max_adapter_pages)
        return None

    def excess_of(self, sequence: Sequence, kv_pages: int) -> Excess | None:
        """As ``excess``, of a sequence with so many pages of its own."""
        held = 0 if sequence.adapter is None else self._pages(sequence.adapter)
        return self.excess(sequence.tenant, sequence.request.key, kv_pages=kv_pages, adapter_pages=held)

    def shares(self, sequence: Sequence, holding: Holding) -> bool:
        """Whether what it holds counts there."""
        return any(found is holding for found in self._of(sequence))

    def most_kv_pages(self, tenant: TenantId, key: str | None) -> int | None:
        """The most pages that one request may ever hold; None is no limit. Any thread."""
        holdings = (self._tenants.get(tenant), None if key is None else self._keys.get(key))
        limits = [found.allowance.max_kv_pages for found in holdings if found is not None]
        return min((limit for limit in limits if limit is not None), default=None)

    def enter(self, sequence: Sequence) -> None:
        """It runs, with the pages that it has."""
        for holding in self._of(sequence):
            holding.running += 1
            holding.kv_pages += len(sequence.pages)
            if sequence.adapter is not None:
                if sequence.adapter not in holding.adapters:
                    holding.adapter_pages += self._pages(sequence.adapter)
                holding.adapters[sequence.adapter] = holding.adapters.get(sequence.adapter, 0) + 1

    def grow(self, sequence: Sequence, num_pages: int) -> None:
        """It got so many pages more."""
        for holding in self._of(sequence):
            holding.kv_pages += num_pages

    def leave(self, sequence: Sequence) -> None:
        """It runs no more; it still has its pages."""
        for holding in self._of(sequence):
            holding.running -= 1
            holding.kv_pages -= len(sequence.pages)
            if sequence.adapter is not None:
                holding.adapters[sequence.adapter] -= 1
                if not holding.adapters[sequence.adapter]:
                    del holding.adapters[sequence.adapter]
                    holding.adapter_pages -= self._pages(sequence.adapter)

    def check(self, running: list[Sequence]) -> None:
        """Prove that what is counted is what runs."""
        for tenant, holding in self._tenants.items():
            own = [sequence for sequence in running if sequence.tenant == tenant]
            assert holding.running == len(own), f"{tenant}: running is off"
            assert holding.kv_pages == sum(len(sequence.pages) for sequence in own), f"{tenant}: KV pages are off"
            held = {sequence.adapter for sequence in own if sequence.adapter is not None}
            assert set(holding.adapters) == held, f"{tenant}: adapters are off"
            assert holding.adapter_pages == sum(map(self._pages, held)), f"{tenant}: adapter pages are off"

    def _of(self, sequence: Sequence) -> Iterator[Holding]:
        yield self.tenant(sequence.tenant)
        key = sequence.request.key
        if key is not None:
            yield self._keys.setdefault(key, Holding())


def makes_wait(allowance: Allowance) -> bool:
    """Whether it has a limit that requests wait for."""
    return (allowance.max_running, allowance.max_kv_pages, allowance.max_adapter_pages) != (None, None, None)
