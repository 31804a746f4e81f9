"""Tokens at a scripted pace."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any

from engine import Request, RequestRecord, Target, TokenChunk
from tests.console.scripted_world import WORDS

if TYPE_CHECKING:
    from tests.console.scripted_engine import ScriptedEngine


LONG = 500
"""A request for more tokens than this gets them all, so that a test has time to stop it."""


class Tokenizer:
    """Bytes as tokens."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The bytes."""
        return list(text.encode())


class ChatTemplate:
    """One turn between two marks."""

    def render(self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The first message, marked."""
        return f"<user>{messages[0]['content']}<assistant>"


class Stream:
    """Tokens at the engine's pace; greedy text depends on the model and the prompt only."""

    def __init__(self, engine: ScriptedEngine, request: Request, target: Target) -> None:
        self.engine, self.request, self.target = engine, request, target
        self.record: RequestRecord | None = None
        self.cancelled = False
        self.begun = time.perf_counter()

    def cancel(self) -> None:
        """End at the next token."""
        self.cancelled = True

    async def __aiter__(self) -> Any:
        row = self.engine.rows.get(self.target.adapter) if self.target.adapter else None
        cold = 0.3 if row and row.tier not in {"device", "loading"} else 0.0
        await asyncio.sleep(0.05 + cold)
        first = time.perf_counter()
        seed = int(hashlib.sha256(f"{self.target.adapter}{self.request.prompt_ids}".encode()).hexdigest()[:6], 16)
        asked = self.request.sampling.max_tokens
        length = min(asked, 20 + seed % 60) if asked <= LONG else asked
        finish, first_step, made = "length" if length == self.request.sampling.max_tokens else "stop", 0, 0
        for index in range(length):
            step = self.engine.take_part(self.request.id, self.target.adapter, index)
            first_step = first_step or step
            made += 1
            if self.cancelled:
                finish = "cancelled"
            reason = finish if index == length - 1 or self.cancelled else None
            yield TokenChunk(index=0, token_ids=(index,), text=WORDS[(seed + index) % len(WORDS)] + " ", finish_reason=reason, step=step)
            if reason:
                break
            await asyncio.sleep(self.engine.token_s)
        now = time.perf_counter()
        self.record = RequestRecord(
            id=self.request.id,
            tenant=self.request.tenant,
            model=self.request.model,
            adapter=self.target.adapter,
            tier_at_arrival=row.tier if row else None,
            prompt_tokens=len(self.request.prompt_ids),
            cached_tokens=0,
            completion_tokens=made,
            finish_reason=finish,
            queue_s=0.01,
            adapter_load_s=cold,
            prefill_s=0.04,
            decode_s=now - first,
            ttft_s=first - self.begun,
            e2e_s=now - self.begun,
            first_step=first_step,
            last_step=self.engine.step,
            arrived_s=self.begun,
        )
