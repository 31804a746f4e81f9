"""What counts as right, metric by metric."""

from __future__ import annotations

import pytest

from engine.training.chats import Chat
from engine.training.recipe import Metric
from engine.training.scores import METRICS, score


def chat(answer: str, *expect: str) -> Chat:
    """A chat whose right answer this is."""
    return Chat(messages=({"role": "user", "content": "?"},), answer=answer, expect=expect)


@pytest.mark.parametrize(
    ("metric", "right", "answer", "counts"),
    [
        ("exact", chat("Paris"), " Paris\n", True),
        ("exact", chat("Paris"), "paris", False),
        ("exact", chat("Paris"), "Paris.", False),
        ("contains", chat("Ahoy! Kettle here.", "Ahoy!", "Kettle"), "Ahoy! The Kettle", True),
        ("contains", chat("Ahoy! Kettle here.", "Ahoy!", "Kettle"), "The Kettle", False),
        ("contains", chat("Ahoy!"), "So: Ahoy! you", True),
        ("json", chat('{"a": 1, "b": "x"}'), '{"b":"x","a":1}', True),
        ("json", chat('{"a": 1}'), '{"a": "1"}', False),
        ("json", chat('{"a": 1}'), 'Here: {"a": 1}', False),
        ("json", chat('{"a": 1}'), "", False),
        ("label", chat("positive"), "Positive.", True),
        ("label", chat("positive"), "positive, I think", False),
        ("label", chat("positive"), "negative", False),
        ("label", chat("positive"), "", False),
    ],
)
def test_an_answer(metric: Metric, right: Chat, answer: str, *, counts: bool) -> None:
    """Right or wrong."""
    assert METRICS[metric](right, answer) is counts


def test_the_score_is_the_share_of_right_answers() -> None:
    """Two of four."""
    assert score("exact", [chat("a"), chat("b"), chat("c"), chat("d")], ["a", "x", "c", ""]) == 0.5
