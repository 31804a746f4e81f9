"""Chats from JSONL: parsed, turned into tokens as the API would, and held back for the evaluation."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidRequest, TrainingRefused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.tokenizing.chat_template import ChatTemplate
    from engine.tokenizing.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One row: messages and the answer to learn."""

    messages: tuple[dict[str, str], ...]
    answer: str
    expect: tuple[str, ...] = ()
    """What an answer must contain, for the metric ``contains``."""

    def as_row(self) -> str:
        """The row's JSON."""
        row: dict[str, object] = {"messages": [*self.messages, {"role": "assistant", "content": self.answer}]}
        return json.dumps(row | ({"expect": list(self.expect)} if self.expect else {}), ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A chat in tokens: the prompt, then the answer with its end token, which alone are learned."""

    token_ids: tuple[int, ...]
    num_prompt: int

    @property
    def num_targets(self) -> int:
        """Tokens learned."""
        return len(self.token_ids) - self.num_prompt


def read_chats(path: Path) -> tuple[Chat, ...]:
    """All rows. Raises TrainingRefused naming the line and the field at fault."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TrainingRefused(f"{path} cannot be read: {error.strerror}.", code="data_unreadable", param="data") from None
    except UnicodeDecodeError:
        raise TrainingRefused(f"{path.name} is not UTF-8.", code="data_unreadable", param="data") from None
    chats = tuple(_chat(line, f"{path.name}:{number}") for number, line in enumerate(lines, 1) if line.strip())
    if not chats:
        raise TrainingRefused(f"{path.name} holds no chats.", code="data_empty", param="data", expected="one JSON object a line", found=0)
    return chats


def _chat(line: str, place: str) -> Chat:
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise _refusal(place, f"is no JSON: {error}", "JSON object") from None
    messages = row.get("messages") if isinstance(row, dict) else None
    if not isinstance(messages, list) or len(messages) < 2:  # noqa: PLR2004 a question and its answer
        raise _refusal(f"{place}:messages", "must be a list of a question and its answer at least", "list of messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES or not isinstance(message.get("content"), str):
            raise _refusal(f"{place}:messages[{index}]", "must have a role and a text as content", f"role among {', '.join(ROLES)}")
    if messages[-1]["role"] != "assistant" or not messages[-1]["content"].strip():
        raise _refusal(f"{place}:messages[{len(messages) - 1}]", "must be the answer to learn, not empty", "role assistant")
    expect = row.get("expect", [])
    if not isinstance(expect, list) or not all(isinstance(each, str) and each for each in expect):
        raise _refusal(f"{place}:expect", "must be a list of texts", "list of texts")
    said = tuple({"role": each["role"], "content": each["content"]} for each in messages[:-1])
    return Chat(messages=said, answer=messages[-1]["content"], expect=tuple(expect))


def _refusal(place: str, rule: str, expected: str) -> TrainingRefused:
    return TrainingRefused(f"{place} {rule}.", code="data_invalid", param=place, expected=expected)


def hold_back(chats: Sequence[Chat], share: float, seed: int) -> tuple[tuple[Chat, ...], tuple[Chat, ...]]:
    """(to train on, held out), by the seed; at least one row stays on each side, but for a share of 0."""
    order = list(range(len(chats)))
    random.Random(seed).shuffle(order)
    count = min(max(round(share * len(chats)), 1), len(chats) - 1) if share else 0
    kept = set(order[:count])
    train = tuple(chat for index, chat in enumerate(chats) if index not in kept)
    return train, tuple(chats[index] for index in sorted(kept))


def chats_digest(chats: Sequence[Chat]) -> str:
    """sha256 of the rows as parsed: spacing and the order of keys do not count."""
    return hashlib.sha256("\n".join(chat.as_row() for chat in chats).encode()).hexdigest()


class Encoder:
    """Chats to tokens with a base's own template, as the API makes prompts. Pure."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, *, max_tokens: int) -> None:
        self._tokenizer, self._template, self._max_tokens = tokenizer, template, max_tokens

    def prompt(self, chat: Chat) -> tuple[int, ...]:
        """The tokens that ask for the answer."""
        text = self._template.render([dict(message) for message in chat.messages])
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def examples(self, chats: Sequence[Chat]) -> tuple[Example, ...]:
        """Every chat in tokens. Raises TrainingRefused naming the row (from 1) that the template refuses or that is too long."""
        return tuple(self._example(chat, row) for row, chat in enumerate(chats, 1))

    def _example(self, chat: Chat, row: int) -> Example:
        try:
            prompt = self.prompt(chat)
        except InvalidRequest as error:
            raise TrainingRefused(f"Row {row}: {error.message}", code="data_invalid", param=f"row {row}:messages") from None
        answer = self._tokenizer.encode(chat.answer, add_special_tokens=False)
        tokens = (*prompt, *answer, self._end)
        if len(tokens) > self._max_tokens:
            message = f"Row {row} has {len(tokens)} tokens; raise max_tokens or shorten it."
            raise TrainingRefused(message, code="data_too_long", param=f"row {row}", expected=self._max_tokens, found=len(tokens))
        return Example(token_ids=tokens, num_prompt=len(prompt))

    @property
    def _end(self) -> int:
        """The token that ends an answer."""
        named = self._tokenizer.named_tokens.get("eos_token")
        ends = [index for index in sorted(self._tokenizer.eos_ids) if self._tokenizer.token_text(index) == named]
        return ends[0] if ends else min(self._tokenizer.eos_ids)
