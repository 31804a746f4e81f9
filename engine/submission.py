"""From a request to its place in the queue: everything that can be refused is refused before anything is queued. Any thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.errors import InvalidRequest, Overloaded
from engine.stream import TokenStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.gateway.gate import Gate
    from engine.loop import EngineLoop
    from engine.model_host import ModelHost
    from engine.request import Request
    from engine.stream import Target

MAX_CHOICES = 16


def queue_all(asked: Sequence[tuple[Request, Target]], host: ModelHost, loop: EngineLoop, gate: Gate) -> list[TokenStream]:
    """Queue the requests of one call, or none of them. Raises InvalidRequest or Overloaded; call it on an asyncio loop."""
    for request, target in asked:
        check_request(request, target, host)
    most = host.parts.settings.max_waiting
    if host.num_waiting + len(asked) > most:
        message = f"As many requests as may wait ({most}) do; try again shortly."
        raise Overloaded(message, code="engine_overloaded")
    tickets = gate.admit([request for request, _ in asked])
    cancel = partial(_cancel, host, loop)
    streams = [TokenStream(*each, cancel=cancel, ticket=ticket) for each, ticket in zip(asked, tickets, strict=True)]
    for stream in streams:
        host.requests.expect(stream)
        loop.post(partial(host.requests.add, stream), fault=partial(host.requests.fail_unqueued, stream))
    return streams


def _cancel(host: ModelHost, loop: EngineLoop, stream: TokenStream) -> None:
    loop.post(lambda: host.requests.cancel(stream))


def check_request(request: Request, target: Target, host: ModelHost) -> None:
    """Refuse what could never run. Raises InvalidRequest naming the field, or the limit of its tenant or key."""
    num_prompt, vocab = len(request.prompt_ids), host.parts.spec.vocab_size
    if not request.prompt_ids:
        message = "The prompt has no tokens."
        raise InvalidRequest(message, code="empty_prompt", param="prompt")
    if not all(0 <= token < vocab for token in request.prompt_ids):
        message = f"A prompt token is outside the vocabulary of {vocab}."
        raise InvalidRequest(message, param="prompt", expected=f"0 to {vocab - 1}")
    version = None if target.adapter is None else host.catalog.versions.get(target.adapter)
    adapter_pages = 0 if version is None else version.num_pages
    kv_pages = host.parts.arena.layout.pages_for(num_prompt + 1)
    excess = host.scheduler.allowances.excess(request.tenant, request.key, kv_pages=kv_pages, adapter_pages=adapter_pages)
    if excess is not None:
        raise excess.refusal()
    most = host.max_sequence_tokens - 1
    if num_prompt > most:
        raise _too_long(num_prompt, most, is_told=request.scope is None or most + 1 == host.parts.context_tokens)
    if not 1 <= request.sampling.n <= MAX_CHOICES:
        message = f"n is {request.sampling.n}; 1 to {MAX_CHOICES} choices can be asked for."
        raise InvalidRequest(message, param="n", expected=f"1 to {MAX_CHOICES}", found=request.sampling.n)


def _too_long(num_prompt: int, most: int, *, is_told: bool) -> InvalidRequest:
    """What the arena holds moves with everybody's pins and adapters: a tenant is told the base's own limit only."""
    message = f"The prompt has {num_prompt} tokens; {f'the longest that fits is {most}' if is_told else 'that is more than fits now'}."
    return InvalidRequest(message, code="context_length_exceeded", param="prompt", expected=most if is_told else None, found=num_prompt)
