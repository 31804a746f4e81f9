"""From a choice's tokens to its text, its end and its chunks. Owned by the engine thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.request import TokenChunk
from engine.tokenizing.detokenizer import Detokenizer, StopMatcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.plan import SampledToken
    from engine.request import FinishReason, TokenLogprob
    from engine.sequence import Sequence
    from engine.tokenizing.tokenizer import Tokenizer


class ChoiceOutput:
    """One choice: decides when it ends, and holds back text that may still become a stop string or a whole character."""

    def __init__(self, sequence: Sequence, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        self.finish_reason: FinishReason | None = None
        self._prompt_logprobs: list[TokenLogprob] = []
        self._sequence = sequence
        self._sampling = sequence.request.sampling
        self._eos_ids = frozenset() if self._sampling.ignore_eos else tokenizer.eos_ids
        self._max_tokens = max_tokens
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopMatcher(self._sampling.stop)

    def score_prompt(self, start: int, scored: Iterable[TokenLogprob]) -> None:
        """Take the log-probabilities of the prompt tokens after position ``start``; a recomputed part replaces what it was before."""
        self._prompt_logprobs[start:] = scored

    def accept(self, token: SampledToken, *, step: int) -> TokenChunk:
        """Take one token, not yet appended to the sequence; ``finish_reason`` says whether it was the last."""
        num_output = self._sequence.num_output + 1
        text, stopped = "", False
        if token.token_id in self._eos_ids:
            self.finish_reason = "stop"
        else:
            text, stopped = self._stops.push(self._detokenizer.push(token.token_id))
            if stopped:
                self.finish_reason = "stop"
            elif num_output >= self._max_tokens:
                self.finish_reason = "length"
        if self.finish_reason is not None and not stopped:
            text += self._tail()
        return TokenChunk(
            index=self._sequence.index,
            token_ids=(token.token_id,),
            text=text,
            logprobs=() if token.logprob is None else (token.logprob,),
            prompt_logprobs=tuple(self._prompt_logprobs) if num_output == 1 else (),
            finish_reason=self.finish_reason,
            step=step,
        )

    def _tail(self) -> str:
        """What was held back; a stop string that only now becomes whole still counts."""
        text, stopped = self._stops.push(self._detokenizer.flush())
        if stopped:
            self.finish_reason = "stop"
            return text
        return text + self._stops.flush()
