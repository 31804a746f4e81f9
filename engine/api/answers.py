"""Whole answers: every choice's chunks put together while the client waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request

from engine.api.generation import Generation, while_connected
from engine.api.timing import note_outcome

if TYPE_CHECKING:
    from engine.request import FinishReason, TokenChunk, TokenLogprob


@dataclass(slots=True, kw_only=True)
class Answer:
    """One choice, complete when it has a finish reason."""

    pieces: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def add(self, chunk: TokenChunk) -> None:
        """Append one chunk."""
        self.pieces.append(chunk.text)
        self.logprobs += chunk.logprobs
        self.prompt_logprobs += chunk.prompt_logprobs
        self.finish_reason = chunk.finish_reason or self.finish_reason


async def collect(request: Request, generation: Generation) -> list[Answer]:
    """One answer a choice, in order. The work is cancelled when the client leaves."""
    try:
        return await while_connected(request.receive, _collect(generation))
    finally:
        generation.cancel()
        note_outcome(request, generation)


async def _collect(generation: Generation) -> list[Answer]:
    answers = [Answer() for _ in range(generation.num_choices)]
    async for chunk in generation.chunks():
        answers[chunk.index].add(chunk)
    return answers
