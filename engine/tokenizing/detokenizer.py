"""Token ids to text while they come: never half a character, never part of a stop string."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.tokenizing.tokenizer import Tokenizer


class Detokenizer:
    """One text. All that ``push`` and ``flush`` return, joined, is ``tokenizer.decode`` of all ids. Owned by one stream."""

    __slots__ = ("_decoder", "_strip", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._strip = tokenizer.strips_first_space

    def push(self, token_id: int) -> str:
        """The characters that this token completes; the bytes of an incomplete one are kept (at most 3)."""
        return self._first(self._decoder.decode(self._tokenizer.visible_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD for an incomplete character, or nothing."""
        return self._first(self._decoder.decode(b"", final=True))

    def _first(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text


class StopMatcher:
    """Passes text through until a stop string is complete, holding back only what could still become one. Owned by one stream."""

    __slots__ = ("_held", "_stops")

    def __init__(self, stops: Sequence[str]) -> None:
        """Empty strings never match."""
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """(text that is safe to show, whether a stop string is complete). After a match, show nothing more and call nothing more.

        Of several stops the one that is complete first wins, however the text is cut; it is not shown, nor is what follows it.
        """
        self._held += text
        matches = [(start + len(stop), start) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if matches:
            _, start = min(matches)
            shown, self._held = self._held[:start], ""
            return shown, True
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        safe = len(self._held) - keep
        shown, self._held = self._held[:safe], self._held[safe:]
        return shown, False

    def flush(self) -> str:
        """What was held back, at the end of a text that no stop string ended."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop`` without being all of it."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-size:]):
            return size
    return 0
