"""Whether an answer is right, by the metric that the task needs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.training.chats import Chat
    from engine.training.recipe import Metric


def score(metric: Metric, chats: Sequence[Chat], answers: Sequence[str]) -> float:
    """Share of right answers, 0 to 1."""
    right = METRICS[metric]
    return sum(right(chat, answer) for chat, answer in zip(chats, answers, strict=True)) / len(chats)


def exact(chat: Chat, answer: str) -> bool:
    """The answer itself, but for space around it."""
    return answer.strip() == chat.answer.strip()


def contains(chat: Chat, answer: str) -> bool:
    """All that the row expects, or else the whole answer, as it is written."""
    return all(text in answer for text in chat.expect or (chat.answer.strip(),))


def same_json(chat: Chat, answer: str) -> bool:
    """The same value, whatever its spacing."""
    try:
        return bool(json.loads(answer) == json.loads(chat.answer))
    except ValueError:
        return False


def label(chat: Chat, answer: str) -> bool:
    """The same first word, and no more than a full stop after it: a label in a sentence is not a label."""
    word = re.fullmatch(r"\s*(\w+)[.!]?\s*", answer)
    return word is not None and word[1].casefold() == chat.answer.strip().rstrip(".").casefold()


METRICS: Final[dict[Metric, Callable[[Chat, str], bool]]] = {"exact": exact, "contains": contains, "json": same_json, "label": label}
