"""What sequences take and give back, in one value for the scheduler's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.cache.prefix import PrefixCache
    from engine.memory.pages import PagePool
    from engine.memory.reclaim import Reclaimer
    from engine.scheduler.allowances import Allowances
    from engine.scheduler.budget import Limits
    from engine.scheduler.fairness import FairShare
    from engine.scheduler.gate import AdapterGate


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Pages, adapters, who has how much of them and the budgets on them."""

    pool: PagePool
    prefix: PrefixCache
    reclaimer: Reclaimer
    gate: AdapterGate
    limits: Limits
    shares: FairShare
    allowances: Allowances

    def pages_for(self, num_tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-num_tokens // self.limits.page_tokens)
