"""Log-probabilities in OpenAI's two shapes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.request import TokenLogprob
    from engine.tokenizing.tokenizer import Tokenizer

LOWEST = -9999.0
"""JSON has no minus infinity."""


def chat_logprobs(logprobs: Iterable[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any]:
    """``choices[].logprobs`` of a chat answer."""
    return {"content": [_chat_token(entry, tokenizer) for entry in logprobs], "refusal": None}


def _chat_token(entry: TokenLogprob, tokenizer: Tokenizer) -> dict[str, Any]:
    top = [_chat_entry(token, logprob, tokenizer) for token, logprob in entry.top]
    return {**_chat_entry(entry.token_id, entry.logprob, tokenizer), "top_logprobs": top}


def _chat_entry(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {"token": token_label(token, tokenizer), "logprob": max(logprob, LOWEST), "bytes": list(raw) if raw else None}


def completion_logprobs(
    logprobs: Iterable[TokenLogprob], tokenizer: Tokenizer, *, prompt_first: int | None = None, offset: int = 0
) -> dict[str, Any]:
    """``choices[].logprobs`` of a plain completion; ``prompt_first`` is an echoed prompt's first token, which has no probability."""
    entries = list(logprobs)
    labels = [token_label(entry.token_id, tokenizer) for entry in entries]
    chosen: list[float | None] = [max(entry.logprob, LOWEST) for entry in entries]
    top: list[dict[str, float] | None] = [_top_by_label(entry, tokenizer) for entry in entries]
    if prompt_first is not None:
        labels, chosen, top = [token_label(prompt_first, tokenizer), *labels], [None, *chosen], [None, *top]
    tokens = [entry.token_id for entry in entries] if prompt_first is None else [prompt_first, *(entry.token_id for entry in entries)]
    offsets = _offsets(tokens, tokenizer, offset)
    return {"tokens": labels, "token_logprobs": chosen, "top_logprobs": top, "text_offset": offsets}


def _offsets(tokens: list[int], tokenizer: Tokenizer, offset: int) -> list[int]:
    """Where in the text each token begins: whole characters before it."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    lengths = (len(decoder.decode(tokenizer.visible_bytes(token))) for token in tokens)
    return list(accumulate(lengths, initial=offset))[: len(tokens)]


def _top_by_label(entry: TokenLogprob, tokenizer: Tokenizer) -> dict[str, float]:
    """The k best and the chosen one, by label."""
    best = {token_label(token, tokenizer): max(logprob, LOWEST) for token, logprob in entry.top}
    return {**best, token_label(entry.token_id, tokenizer): max(entry.logprob, LOWEST)}


def token_label(token: int, tokenizer: Tokenizer) -> str:
    r"""A token's text, or ``bytes:\xe2\x98`` where its bytes are no text of their own, so that no two look alike."""
    raw = tokenizer.token_bytes(token)
    try:
        return raw.decode("utf-8") or tokenizer.token_text(token)
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
