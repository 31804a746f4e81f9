"""What one step may hold, and the step while it is put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from engine.plan import PlannedRow, StepPlan

if TYPE_CHECKING:
    from engine.ids import WaitReason
    from engine.plan import Preemption, Stall
    from engine.scheduler.queues import Group, Lane
    from engine.sequence import Sequence

IN_ORDER = (attrgetter("sequence.key"), attrgetter("sequence.slot"), attrgetter("phase"))  # "decode" < "prefill"
"""What a plan's rows are sorted by, the last first. One after the other: each is mostly in order, and of plain numbers."""
new_row = tuple.__new__
"""What a NamedTuple's own constructor calls: hundreds of rows are made every step."""

Scarce = Literal["seats", "places", "pages"]
"""What a full step is out of: sequences or tokens, places for adapters, KV pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Budgets of every step."""

    max_sequences: int
    max_step_tokens: int
    prefill_chunk: int
    """Prompt tokens of one sequence in a step in which others decode."""
    max_adapters: int
    """Distinct adapters that run at once."""
    page_tokens: int
    drain_after_s: float
    """How long an adapter may wait for pages or a place before others drain for it."""

    @property
    def max_running(self) -> int:
        """Sequences that can all decode in one step."""
        return min(self.max_sequences, self.max_step_tokens)


@dataclass(slots=True, kw_only=True)
class StepDraft:
    """A step being planned."""

    step: int
    tokens_left: int
    prefill_chunk: int
    seats_left: int = 0
    is_full: bool = True
    """Whether no seat or no token is left."""
    rows: list[PlannedRow] = field(default_factory=list)
    num_decode: int = 0
    preempted: list[Preemption] = field(default_factory=list)
    stalled: list[Stall] = field(default_factory=list)
    stranded: list[Sequence] = field(default_factory=list)
    kv_waiter: Sequence | None = None
    """The first in order that waits for KV pages; nobody behind it takes any."""
    turns: int = 0
    """Lanes that cannot run, first in order, that this plan still comes to."""
    had_turn: set[Lane] = field(default_factory=set)
    groups_seen: set[Group] = field(default_factory=set)
    """Those that a lane of had a turn and could not run."""
    over_limit: set[Group] = field(default_factory=set)
    """Tenants that may hold no more."""
    next_up: dict[Scarce, Group] = field(default_factory=dict)
    """Whose the first is that waits for each; the others wait for their turn."""
    lookahead: int = 0
    """Adapters not in the batch, first in order, that may still be asked for in this plan."""
    lookahead_pages: int = 0
    """Pages that they may still come to; below 0, no further load is begun."""

    def offer_seats(self, num_seats: int) -> None:
        """So many sequences more may enter."""
        self.seats_left = num_seats
        self.is_full = num_seats <= 0 or not self.tokens_left

    def add_decodes(self, sequences: list[Sequence]) -> None:
        """Plan the next token of sequences whose prompt is complete; needs as many ``tokens_left``."""
        self.rows += [new_row(PlannedRow, (each, "decode", each.num_computed, 1, True)) for each in sequences]
        self.tokens_left -= len(sequences)
        self.num_decode += len(sequences)

    def add(self, sequence: Sequence) -> None:
        """Plan as many of the sequence's uncomputed tokens as the budget allows; needs ``tokens_left``."""
        start = sequence.num_computed
        uncomputed = len(sequence.token_ids) - start
        chunk = self.prefill_chunk if self.num_decode else self.tokens_left
        num_tokens = 1 if uncomputed == 1 else min(uncomputed, self.tokens_left, chunk)
        samples = num_tokens == uncomputed
        decodes = samples and num_tokens == 1 and start >= sequence.num_prompt
        self.rows.append(PlannedRow(sequence, "decode" if decodes else "prefill", start, num_tokens, samples))
        self.tokens_left -= num_tokens
        self.num_decode += decodes

    def enter(self, sequence: Sequence) -> None:
        """``add`` one that has taken a seat."""
        self.add(sequence)
        self.offer_seats(self.seats_left - 1)

    def reason(self, scarce: Scarce, lane: Lane) -> WaitReason:
        """Why a lane waits for what is scarce: for that, or for those who get it first."""
        if self.next_up.setdefault(scarce, lane.group) is not lane.group:
            return "fair_share"
        return "kv_pages" if scarce == "pages" else "batch_full"

    def rest_reasons(self) -> tuple[WaitReason, dict[Group, WaitReason]]:
        """Why those wait that this plan did not come to: of most groups, and of the others."""
        short: WaitReason = "kv_pages" if "seats" not in self.next_up and self.kv_waiter is not None else "batch_full"
        limited: dict[Group, WaitReason] = dict.fromkeys(self.over_limit, "tenant_limit")
        return "fair_share" if self.groups_seen else short, dict.fromkeys(self.groups_seen, short) | limited

    def finish(self) -> StepPlan:
        """The plan: decode rows, then prefill rows, each by adapter slot with the base last, then by arrival."""
        for place in IN_ORDER:
            self.rows.sort(key=place)
        return StepPlan(
            step=self.step,
            rows=tuple(self.rows),
            preempted=tuple(self.preempted),
            stalled=tuple(self.stalled),
            stranded=tuple(self.stranded),
        )
