"""All that passes between the scheduler and the runner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from engine.ids import TenantId
    from engine.request import TokenLogprob
    from engine.sequence import Sequence

Phase = Literal["prefill", "decode"]


class PlannedRow(NamedTuple):
    """One sequence's share of a step: tokens ``[start, start + num_tokens)`` of it are computed. A tuple: hundreds are made every step."""

    sequence: Sequence
    phase: Phase
    start: int
    num_tokens: int
    samples: bool
    """Whether the last of these tokens yields a new one (the prompt is then complete)."""


class Preemption(NamedTuple):
    """A sequence had to give its pages back, because another one needed some; it waits to be recomputed."""

    sequence: Sequence
    pages: int
    by: Sequence
    """Itself, when it needed a page and all others go before it."""


class Stall(NamedTuple):
    """A sequence enters the batch after it waited for what a tenant's requests had taken from it: its pages, or its adapter's."""

    sequence: Sequence
    by: TenantId
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One forward pass. Decode rows come first, then prefill rows; each part is sorted by adapter slot, base last."""

    step: int
    rows: tuple[PlannedRow, ...] = ()
    preempted: tuple[Preemption, ...] = ()
    stalled: tuple[Stall, ...] = ()
    stranded: tuple[Sequence, ...] = ()
    """Sequences that were ended because the arena cannot hold them any more (pins grew); everything is given back."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to compute."""
        return not self.rows

    @property
    def num_tokens(self) -> int:
        """Tokens in the pass."""
        return sum(row.num_tokens for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledToken:
    """The token one row yielded."""

    token_id: int
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What the runner gives back for a plan."""

    sampled: tuple[SampledToken | None, ...]
    """One a row of the plan; None where the row does not sample."""
    prompt_logprobs: dict[int, tuple[TokenLogprob, ...]] = field(default_factory=dict)
    """Row index → log-probabilities of the tokens after each computed position, where asked for."""
    run_s: float = 0.0
