"""Who is served next: virtual token counters, so that no tenant gets more than its share while others wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.ids import TenantId

Fairness = Literal["vtc", "arrival"]
"""``vtc``: the least served tenant first. ``arrival``: oldest first, whoever asks."""

PROMPT_TOKEN = 1.0
"""Work of one prompt token that is computed, the unit of all others."""
OUTPUT_TOKEN = 2.0
LOADED_PAGE = 1.0
"""Work of one page of an adapter brought to the device."""
PAGE_STEP = 1 / 64
"""Work of holding one page of keys and values for one step."""
LEAST_WEIGHT = 1e-3


@dataclass(slots=True, kw_only=True, eq=False)
class Account:
    """What one tenant was served. Owned by the engine thread."""

    tenant: TenantId
    weight: float = 1.0
    counter: float = 0.0
    """Work ÷ weight so far, and what it was lifted by."""
    served: float = 0.0
    """Work ÷ weight while it had requests waiting."""
    waited_s: float = 0.0
    """How long it had requests waiting, less what runs since ``waiting_since_s``."""
    waiting_since_s: float | None = None
    """None: nothing of it waits."""

    def backlogged_s(self, now_s: float) -> float:
        """How long it had requests waiting."""
        return self.waited_s + (0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s)


class FairShare:
    """Weighted virtual token counters (Sheng et al., OSDI 2024, algorithms 2 and 4). Owned by the engine thread.

    A tenant pays for prompt tokens that are computed (not for those that the prefix cache has, nor for computing them again after a
    preemption), for output tokens, for loads that it starts and for the pages that its sequences hold, each divided by its weight. Of two
    tenants that both wait, neither is served more than 2 · max(prompt, work of a whole batch) beyond the other, for however long.
    One that returns is lifted to the least served of those that wait: an idle tenant banks nothing.
    """

    def __init__(self, fairness: Fairness) -> None:
        self.fairness = fairness
        self._accounts: dict[TenantId, Account] = {}
        self._waiting: dict[TenantId, Account] = {}
        self._last_to_leave: Account | None = None

    def __iter__(self) -> Iterator[Account]:
        """Every account, by first appearance."""
        return iter(self._accounts.values())

    def account(self, tenant: TenantId) -> Account:
        """A tenant's account, opened when it is first asked for."""
        found = self._accounts.get(tenant)
        if found is None:
            found = self._accounts[tenant] = Account(tenant=tenant)
        return found

    def standing(self, tenant: TenantId) -> float:
        """The lower, the sooner it is served; all are equal where arrival decides."""
        return self.account(tenant).counter if self.fairness == "vtc" else 0.0

    def set_weights(self, weights: Mapping[TenantId, float]) -> None:
        """Shares relative to one another, from now on; 1 for those not named."""
        for tenant in {*self._accounts, *weights}:
            self.account(tenant).weight = max(weights.get(tenant, 1.0), LEAST_WEIGHT)

    def starts_waiting(self, tenant: TenantId, now_s: float, *, returns: bool) -> None:
        """Its first request waits; one that ``returns`` is lifted, one whose running request was preempted is not."""
        account = self.account(tenant)
        if returns and self._waiting:
            account.counter = max(account.counter, min(other.counter for other in self._waiting.values()))
        elif returns and self._last_to_leave is not None:
            account.counter = max(account.counter, self._last_to_leave.counter)
        self._waiting[tenant] = account
        account.waiting_since_s = now_s

    def stops_waiting(self, tenant: TenantId, now_s: float) -> None:
        """None of its requests waits any more."""
        account = self._last_to_leave = self._waiting.pop(tenant)
        account.waited_s = account.backlogged_s(now_s)
        account.waiting_since_s = None

    def charge(self, tenant: TenantId, work: float) -> None:
        """It was served."""
        self.charge_all({tenant: work})

    def charge_all(self, work: Mapping[TenantId, float]) -> None:
        """They were served."""
        for tenant, done in work.items():
            account = self._accounts.get(tenant) or self.account(tenant)
            share = done / account.weight
            account.counter += share
            if account.waiting_since_s is not None:
                account.served += share
