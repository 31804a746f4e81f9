"""From messages, text or token ids to checked prompts. Templates and long texts are worked on in threads, never on the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from engine.api.schemas import MAX_PROMPTS, ChatMessage
from engine.errors import InvalidRequest

if TYPE_CHECKING:
    from engine.engine import Engine

LONGEST_TOKEN_CHARS = 128
"""No vocabulary we serve has longer tokens: a text longer than this times the context cannot fit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt as the model gets it; ``text`` is what ``echo`` gives back."""

    ids: tuple[int, ...]
    text: str


async def chat_prompt(engine: Engine, messages: list[ChatMessage]) -> Prompt:
    """The messages through the base's chat template. InvalidRequest carries the template's own refusal."""
    rows = [message.for_template() for message in messages]
    _check_length(engine, sum(len(row["content"]) for row in rows), "messages")
    return await anyio.to_thread.run_sync(_render, engine, rows)


async def completion_prompts(engine: Engine, prompt: object) -> tuple[Prompt, ...]:
    """A text, a list of texts, token ids, or a list of token id lists, in that order. InvalidRequest for anything else."""
    prompts = _as_prompts(prompt)
    if len(prompts) > MAX_PROMPTS:
        raise InvalidRequest(
            f"'prompt': at most {MAX_PROMPTS} in one call.", param="prompt", expected=f"at most {MAX_PROMPTS}", found=len(prompts)
        )
    if isinstance(prompts[0], str):
        _check_length(engine, max(map(len, prompts)), "prompt")
    return await anyio.to_thread.run_sync(_encode_all, engine, prompts)


def context_tokens(engine: Engine) -> int:
    """Tokens that one sequence may have."""
    return engine.snapshot().device.context_tokens


def _render(engine: Engine, rows: list[dict[str, str]]) -> Prompt:
    text = engine.chat_template.render(rows)
    ids = tuple(engine.tokenizer.encode(text, add_special_tokens=False))
    if not ids:
        raise InvalidRequest("The chat template makes an empty prompt of these messages.", code="empty_prompt", param="messages")
    return Prompt(ids=ids, text=text)


def _encode_all(engine: Engine, prompts: list[str] | list[list[int]]) -> tuple[Prompt, ...]:
    return tuple(_encode(engine, prompt) for prompt in prompts)


def _encode(engine: Engine, prompt: str | list[int]) -> Prompt:
    if isinstance(prompt, list):
        _check_ids(prompt, engine.tokenizer.vocab_size)
        return Prompt(ids=tuple(prompt), text=engine.tokenizer.decode(prompt))
    ids = tuple(engine.tokenizer.encode(prompt))
    if not ids:
        raise InvalidRequest("The prompt is empty, and this model has no token to begin with.", code="empty_prompt", param="prompt")
    return Prompt(ids=ids, text=prompt)


def _as_prompts(prompt: object) -> list[str] | list[list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or not prompt:
        found = "empty list" if prompt == [] else type(prompt).__name__
        raise InvalidRequest("'prompt' is a text, token ids, or a list of either, and not empty.", param="prompt", found=found)
    kind = type(prompt[0])
    if any(type(item) is not kind for item in prompt) or kind not in {str, int, list}:
        raise InvalidRequest("'prompt' mixes kinds, or holds something other than texts or token ids.", code="invalid_type", param="prompt")
    return [prompt] if kind is int else prompt


def _check_ids(ids: list[int], vocab_size: int) -> None:
    if not ids:
        raise InvalidRequest("A prompt of no tokens cannot be answered.", code="empty_prompt", param="prompt")
    for token in ids:
        if type(token) is not int or not 0 <= token < vocab_size:
            raise InvalidRequest(
                "'prompt' holds something that is no token id.", param="prompt", expected=f"0 to {vocab_size - 1}", found=token
            )


def _check_length(engine: Engine, num_chars: int, param: str) -> None:
    context = context_tokens(engine)
    if num_chars > context * LONGEST_TOKEN_CHARS:
        raise InvalidRequest(
            f"The text has {num_chars} characters, more than {context} tokens can hold.",
            code="context_length_exceeded",
            param=param,
            expected=f"at most {context} tokens",
        )
