"""``POST /v1/completions``."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.answers import Answer, collect
from engine.api.auth import caller_of
from engine.api.body import read_body
from engine.api.event_stream import stream_response
from engine.api.generation import Call, Generation
from engine.api.prompts import Prompt, completion_prompts, context_tokens
from engine.api.sampling import completion_sampling
from engine.api.schemas import CompletionBody
from engine.api.timing import answer_headers
from engine.api.tokens_json import completion_logprobs
from engine.api.trace import trace_of

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.request import TokenChunk, TokenLogprob


def completions_router(engine: Engine) -> APIRouter:
    """The route, over one engine."""
    router = APIRouter()

    @router.post("/completions")
    async def completions(request: Request) -> Response:
        body = await read_body(request, CompletionBody)
        caller = caller_of(request)
        engine.resolve(body.model, caller.tenant, key=caller.key)
        prompts = await completion_prompts(engine, body.prompt)
        generation = Generation(engine, _call(engine, request, body, prompts))
        try:
            shape = CompletionShape(engine, generation, body, prompts)
            if body.stream:
                return await stream_response(request, generation, shape, include_usage=body.wants_usage)
            answers = await collect(request, generation)
            return Response(orjson.dumps(shape.whole(answers)), 200, answer_headers(generation), "application/json")
        except BaseException:
            generation.cancel()
            raise

    return router


def _call(engine: Engine, request: Request, body: CompletionBody, prompts: tuple[Prompt, ...]) -> Call:
    sampling = completion_sampling(
        body,
        vocab_size=engine.tokenizer.vocab_size,
        prompt_tokens=max(len(prompt.ids) for prompt in prompts),
        context_tokens=context_tokens(engine),
    )
    return Call(
        id=trace_of(request).id,
        model=body.model,
        prompts=tuple(prompt.ids for prompt in prompts),
        sampling=sampling,
        caller=caller_of(request),
        echo_logprobs=bool(body.echo) and body.logprobs is not None,
        priority=body.priority or 0,
    )


class CompletionShape:
    """OpenAI's completion objects, whole and in chunks. Remembers how much text each choice has sent."""

    def __init__(self, engine: Engine, generation: Generation, body: CompletionBody, prompts: tuple[Prompt, ...]) -> None:
        self._tokenizer = engine.tokenizer
        self._generation = generation
        self._prompts = prompts
        self._echo = bool(body.echo)
        self._shows_output = body.max_tokens != 0
        self._wants_logprobs = body.logprobs is not None
        self._wants_usage = body.wants_usage
        self._offsets: dict[int, int] = {}
        self._created = int(time.time())

    def whole(self, answers: list[Answer]) -> dict[str, Any]:
        """The ``text_completion``."""
        choices = [self._whole_choice(index, answer) for index, answer in enumerate(answers)]
        return {**self._head(), "choices": choices, "usage": self._usage(self._generation.usage().as_json())}

    def write(self, chunk: TokenChunk) -> list[dict[str, Any]]:
        """A chunk without text, log-probabilities or an end is not sent; the first brings the echo."""
        first = chunk.index not in self._offsets
        if not self._shows_output:
            chunk = replace(chunk, text="", logprobs=(), finish_reason=chunk.finish_reason and "length")
        text = self._echoed(chunk.index) + chunk.text if first else chunk.text
        offset = self._offsets.get(chunk.index, 0)
        self._offsets[chunk.index] = offset + len(text)
        logprobs = self._logprobs(chunk.index, [*chunk.prompt_logprobs, *chunk.logprobs], first=first, offset=offset)
        if not (text or logprobs or chunk.finish_reason):
            return []
        choice = {"index": chunk.index, "text": text, "logprobs": logprobs, "finish_reason": chunk.finish_reason}
        event = {**self._head(), "choices": [choice]}
        return [{**event, "usage": None} if self._wants_usage else event]

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The last chunk when usage was asked for: no choices."""
        return {**self._head(), "choices": [], "usage": self._usage(usage)}

    def _whole_choice(self, index: int, answer: Answer) -> dict[str, Any]:
        shown = answer.logprobs if self._shows_output else []
        return {
            "index": index,
            "text": self._echoed(index) + (answer.text if self._shows_output else ""),
            "logprobs": self._logprobs(index, [*answer.prompt_logprobs, *shown], first=True, offset=0),
            "finish_reason": answer.finish_reason if self._shows_output else "length",
        }

    def _logprobs(self, index: int, entries: list[TokenLogprob], *, first: bool, offset: int) -> dict[str, Any] | None:
        if not self._wants_logprobs or not (entries or (first and self._echo)):
            return None
        prompt_first = self._prompt(index).ids[0] if self._echo and first else None
        return completion_logprobs(entries, self._tokenizer, prompt_first=prompt_first, offset=offset)

    def _echoed(self, index: int) -> str:
        return self._prompt(index).text if self._echo else ""

    def _prompt(self, index: int) -> Prompt:
        return self._prompts[index // self._generation.call.sampling.n]

    def _usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """With ``max_tokens`` 0 the one token made to score the prompt is not the caller's."""
        if self._shows_output:
            return usage
        return {**usage, "completion_tokens": 0, "total_tokens": usage["prompt_tokens"]}

    def _head(self) -> dict[str, Any]:
        return {
            "id": f"cmpl-{self._generation.call.id}",
            "object": "text_completion",
            "created": self._created,
            "model": self._generation.model,
            "system_fingerprint": self._generation.fingerprint,
        }
