"""A choice of a request while it runs. Owned by the engine thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.ids import AdapterId, TenantId, Tier, WaitReason
    from engine.request import Request

NO_SLOT = 2**30 - 1
"""Of the base, after all others."""
SequenceState = Literal["waiting", "running", "finished"]


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One choice of one request: its tokens, its pages, how far it is computed.

    Owned by the engine thread. Invariant: ``num_computed <= len(token_ids)``; pages cover ``num_computed`` tokens
    and, while running, the tokens of the planned step.
    """

    key: int
    """Unique in the process, rising with arrival: the tie-break of every queue."""
    request: Request
    index: int
    """Which of the request's ``n`` choices."""
    adapter: AdapterId | None
    token_ids: list[int]
    """Prompt, then output."""
    num_prompt: int
    arrived_s: float
    tier_at_arrival: Tier | None = None
    priority: int = 0
    """Among those it waits with: the lower goes first. Set by the queue."""
    state: SequenceState = "waiting"
    num_computed: int = 0
    num_cached: int = 0
    """Prompt tokens whose KV was shared rather than computed."""
    pages: list[int] = field(default_factory=list)
    """Arena page ids, in token order; shared prefix pages first."""
    num_shared: int = 0
    """The first pages, which belong to the prefix cache; the others are this sequence's own."""
    digests: list[bytes] = field(default_factory=list)
    """Of its first full pages, as far as the prefix cache has needed them; the cache's."""
    slot: int = NO_SLOT
    """While it runs: that of its adapter."""
    leased: bool = False
    """Whether it holds a lease on its adapter."""
    cancelled: bool = False
    preemptions: int = 0
    wait_reason: WaitReason | None = None
    waits: dict[str, float] = field(default_factory=dict)
    """Seconds waited, by reason code."""
    waiting_since_s: float = 0.0
    """While waiting: start of the wait that ``waits`` does not hold yet."""
    gave_way: tuple[TenantId, float] | None = None
    """While it waits after a preemption: whose sequence needed its pages, and since when."""
    scheduled_s: float | None = None
    first_token_s: float | None = None
    first_step: int = 0

    @property
    def tenant(self) -> TenantId:
        """Whose it is."""
        return self.request.tenant

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far."""
        return len(self.token_ids)

    @property
    def num_output(self) -> int:
        """Tokens generated so far."""
        return len(self.token_ids) - self.num_prompt

    @property
    def num_uncomputed(self) -> int:
        """Tokens that still need a forward pass; 1 while decoding."""
        return len(self.token_ids) - self.num_computed
