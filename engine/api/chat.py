"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.api.answers import Answer, collect
from engine.api.auth import caller_of
from engine.api.body import read_body
from engine.api.event_stream import stream_response
from engine.api.generation import Call, Generation
from engine.api.prompts import chat_prompt, context_tokens
from engine.api.sampling import chat_sampling
from engine.api.schemas import ChatBody
from engine.api.timing import answer_headers
from engine.api.tokens_json import chat_logprobs
from engine.api.trace import trace_of

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.request import TokenChunk


def chat_router(engine: Engine) -> APIRouter:
    """The route, over one engine."""
    router = APIRouter()

    @router.post("/chat/completions")
    async def chat_completions(request: Request) -> Response:
        body = await read_body(request, ChatBody)
        generation = Generation(engine, await _prepare(engine, request, body))
        try:
            shape = ChatShape(engine, generation, body)
            if body.stream:
                return await stream_response(request, generation, shape, include_usage=body.wants_usage)
            answers = await collect(request, generation)
            return Response(orjson.dumps(shape.whole(answers)), 200, answer_headers(generation), "application/json")
        except BaseException:
            generation.cancel()
            raise

    return router


async def _prepare(engine: Engine, request: Request, body: ChatBody) -> Call:
    """Everything that can be refused, refused before the engine hears of it."""
    caller = caller_of(request)
    engine.resolve(body.model, caller.tenant, key=caller.key)
    prompt = await chat_prompt(engine, body.messages)
    sampling = chat_sampling(
        body,
        vocab_size=engine.tokenizer.vocab_size,
        prompt_tokens=len(prompt.ids),
        context_tokens=context_tokens(engine),
        most_output=engine.gate.most_output(caller.home, caller.key, prompt_tokens=len(prompt.ids), choices=body.num_choices),
    )
    return Call(
        id=trace_of(request).id,
        model=body.model,
        prompts=(prompt.ids,),
        sampling=sampling,
        caller=caller,
        priority=body.priority or 0,
    )


class ChatShape:
    """OpenAI's chat objects, whole and in chunks. Remembers which choices have begun."""

    def __init__(self, engine: Engine, generation: Generation, body: ChatBody) -> None:
        self._tokenizer = engine.tokenizer
        self._generation = generation
        self._wants_logprobs = bool(body.logprobs)
        self._wants_usage = body.wants_usage
        self._begun: set[int] = set()
        self._created = int(time.time())

    def whole(self, answers: list[Answer]) -> dict[str, Any]:
        """The ``chat.completion``."""
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": answer.text, "refusal": None},
                "logprobs": chat_logprobs(answer.logprobs, self._tokenizer) if self._wants_logprobs else None,
                "finish_reason": answer.finish_reason,
            }
            for index, answer in enumerate(answers)
        ]
        return {**self._head("chat.completion"), "choices": choices, "usage": self._generation.usage().as_json()}

    def write(self, chunk: TokenChunk) -> list[dict[str, Any]]:
        """A choice's first chunk carries its role; one without text, log-probabilities or an end is not sent."""
        events = []
        if chunk.index not in self._begun:
            self._begun.add(chunk.index)
            events.append(self._chunk(chunk.index, {"role": "assistant", "content": ""}))
        logprobs = chat_logprobs(chunk.logprobs, self._tokenizer) if self._wants_logprobs and chunk.logprobs else None
        if chunk.text or logprobs or chunk.finish_reason:
            delta = {"content": chunk.text} if chunk.text or logprobs else {}
            events.append(self._chunk(chunk.index, delta, logprobs=logprobs, finish_reason=chunk.finish_reason))
        return events

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The last chunk when usage was asked for: no choices."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage}

    def _chunk(
        self, index: int, delta: dict[str, Any], *, logprobs: dict[str, Any] | None = None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        event = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return {**event, "usage": None} if self._wants_usage else event

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._generation.call.id}",
            "object": kind,
            "created": self._created,
            "model": self._generation.model,
            "system_fingerprint": self._generation.fingerprint,
        }
