"""A request while the engine works on it: its choices, its stream, and at the end its record. Owned by the engine thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.ids import LOAD_REASONS
from engine.request import RequestRecord

if TYPE_CHECKING:
    from engine.output import ChoiceOutput
    from engine.request import FinishReason
    from engine.sequence import Sequence
    from engine.stream import TokenStream


@dataclass(slots=True, kw_only=True, eq=False)
class LiveRequest:
    """One request in the engine. ``outputs[i]`` belongs to ``sequences[i]``."""

    stream: TokenStream
    sequences: list[Sequence]
    outputs: list[ChoiceOutput]
    last_step: int = 0
    num_finished: int = 0
    failed: bool = field(default=False)

    @property
    def is_done(self) -> bool:
        """Whether every choice has ended."""
        return self.num_finished == len(self.sequences)

    def record(self, now_s: float, *, reason: FinishReason | None = None) -> RequestRecord:
        """What was measured; ``reason`` overrides the choices' own, as for a cancelled request."""
        first = self.sequences[0]
        waits = self._waits()
        load_s = sum(waits.get(code, 0.0) for code in LOAD_REASONS)
        scheduled_s = min((seq.scheduled_s for seq in self.sequences if seq.scheduled_s is not None), default=None)
        first_token_s = min((seq.first_token_s for seq in self.sequences if seq.first_token_s is not None), default=None)
        before_s = (now_s if scheduled_s is None else scheduled_s) - first.arrived_s
        return RequestRecord(
            id=first.request.id,
            tenant=first.tenant,
            model=self.stream.target.name,
            adapter=first.adapter,
            tier_at_arrival=first.tier_at_arrival,
            prompt_tokens=first.num_prompt,
            cached_tokens=first.num_cached,
            completion_tokens=sum(seq.num_output for seq in self.sequences),
            finish_reason=reason or self._finish_reason(),
            queue_s=max(0.0, before_s - load_s),
            adapter_load_s=load_s,
            prefill_s=None if first_token_s is None or scheduled_s is None else first_token_s - scheduled_s,
            decode_s=None if first_token_s is None else now_s - first_token_s,
            ttft_s=None if first_token_s is None else first_token_s - first.arrived_s,
            e2e_s=now_s - first.arrived_s,
            first_step=min((seq.first_step for seq in self.sequences if seq.first_step), default=0),
            last_step=self.last_step,
            arrived_s=first.arrived_s,
            waits=tuple(sorted(waits.items(), key=lambda item: -item[1])),
            preemptions=sum(seq.preemptions for seq in self.sequences),
        )

    def _waits(self) -> dict[str, float]:
        """Seconds by reason, of the choice that waited longest for each."""
        codes = {code for seq in self.sequences for code in seq.waits}
        return {code: max(seq.waits.get(code, 0.0) for seq in self.sequences) for code in codes}

    def _finish_reason(self) -> FinishReason:
        reasons = {output.finish_reason for output in self.outputs}
        return "length" if "length" in reasons else "stop"
