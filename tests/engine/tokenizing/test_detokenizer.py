from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokenizing.detokenizer import Detokenizer, StopMatcher
from engine.tokenizing.tokenizer import Tokenizer
from tests.engine.tokenizing.test_tokenizer import write_metaspace
from tests.tiny import write_base
from tests.tiny_tokenizer import EOS, IM_END, PAD

FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}\N{ZERO WIDTH JOINER}\N{BOY}"
KOREAN = "안녕하세요, 세계"
TEXTS = (FAMILY, KOREAN, "naïve café", "e\N{COMBINING ACUTE ACCENT}", "\N{ZERO WIDTH NO-BREAK SPACE}x", "\U0010ffff\0\x7f", "")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """TINY's: one token a byte, so every character is cut in all ways."""
    return Tokenizer.load(write_base(tmp_path_factory.mktemp("base")))


def pushed(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], str]:
    """(what each push gave, what flush gave)."""
    detokenizer = Detokenizer(tokenizer)
    return [detokenizer.push(index) for index in ids], detokenizer.flush()


@pytest.mark.parametrize("text", TEXTS)
def test_whole_characters_come_through(tokenizer: Tokenizer, text: str) -> None:
    """Byte by byte, each character appears once its last byte has come, and nothing is left."""
    parts, rest = pushed(tokenizer, list(text.encode()))
    assert "".join(parts) == text
    assert rest == ""
    assert all(len(part) <= 1 for part in parts)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_cut_character_is_held_and_flushed(tokenizer: Tokenizer, cut: int) -> None:
    """Generation that ends inside a character shows nothing of it until the end, and then one U+FFFD as decode has it."""
    ids = [*b"ok ", *"\N{GRINNING FACE}".encode()[:cut]]
    parts, rest = pushed(tokenizer, ids)
    assert "".join(parts) == "ok "
    assert rest == "\N{REPLACEMENT CHARACTER}"
    assert "".join(parts) + rest == tokenizer.decode(ids)


def test_special_tokens_are_silent(tokenizer: Tokenizer) -> None:
    """Special tokens add no text, even between the bytes of one character."""
    first, *others = "한".encode()
    parts, rest = pushed(tokenizer, [IM_END, first, PAD, *others, EOS])
    assert "".join(parts) + rest == "한"


@settings(deadline=None)
@given(ids=st.lists(st.one_of(st.integers(0, 319), st.sampled_from(list(KOREAN.encode() + FAMILY.encode()))), max_size=60))
def test_pushes_join_to_decode(tokenizer: Tokenizer, ids: list[int]) -> None:
    """For any ids at all, the pushes and the flush join to ``decode``, and only the end may bring a U+FFFD that was not certain before."""
    parts, rest = pushed(tokenizer, ids)
    assert "".join(parts) + rest == tokenizer.decode(ids)
    for index in range(len(ids)):
        assert tokenizer.decode(ids).startswith("".join(parts[:index]))


@settings(deadline=None)
@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_only_invalid_bytes_are_replaced(tokenizer: Tokenizer, text: str) -> None:
    """Any text survives encoding, streaming and joining, whatever tokens it is made of."""
    parts, rest = pushed(tokenizer, list(text.encode()))
    assert "".join(parts) + rest == text
    assert tokenizer.decode(text.encode()) == text


def shown(stops: list[str], chunks: list[str]) -> tuple[str, bool]:
    """What a client sees of a text that comes in chunks, and whether it was stopped."""
    matcher, seen = StopMatcher(stops), ""
    for chunk in chunks:
        part, matched = matcher.push(chunk)
        seen += part
        if matched:
            return seen, True
    return seen + matcher.flush(), False


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["END"], "one END two", ("one ", True)),
        (["END"], "one EN", ("one EN", False)),
        (["END"], "one ENEND", ("one EN", True)),
        (["aab"], "aaab", ("a", True)),
        (["abcd", "bc"], "abcd", ("a", True)),
        (["\n\n", "\n"], "x\n\ny", ("x", True)),
        (["", "z"], "abc", ("abc", False)),
        ([], "abc", ("abc", False)),
        (["안녕"], "그래 안녕", ("그래 ", True)),
    ],
)
def test_stop_strings(stops: list[str], text: str, expected: tuple[str, bool]) -> None:
    """The stop that is complete first cuts the text before itself, however the text is cut; a stop that never completes is shown."""
    assert shown(stops, [text]) == expected
    assert shown(stops, list(text)) == expected


letters = st.text(alphabet="ab", max_size=12)


@settings(deadline=None)
@given(stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3), chunks=st.lists(letters, max_size=8))
def test_cuts_of_the_text_do_not_matter(stops: list[str], chunks: list[str]) -> None:
    """Any cutting gives what the naive reading of the whole text gives: the prefix before the stop whose end comes first."""
    text = "".join(chunks)
    ends = [(end, end - len(stop)) for end in range(len(text) + 1) for stop in stops if text[:end].endswith(stop)]
    expected = (text[: min(ends)[1]], True) if ends else (text, False)
    assert shown(stops, chunks) == expected


@settings(deadline=None)
@given(stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=3), text=letters)
def test_holds_back_no_more_than_it_must(stops: list[str], text: str) -> None:
    """What is held is the longest end of the text that some stop begins with, and nothing longer."""
    matcher, seen = StopMatcher(stops), ""
    for letter in text:
        part, matched = matcher.push(letter)
        if matched:
            return
        seen += part
    held = text[len(seen) :]
    longest = max((size for size in range(len(text) + 1) for stop in stops if size < len(stop) and text.endswith(stop[:size])), default=0)
    assert len(held) == longest
    assert matcher.flush() == held


def test_pushing_costs_the_same_at_any_length(tokenizer: Tokenizer) -> None:
    """A detokenizer keeps at most three bytes: nothing grows with the text."""
    detokenizer = Detokenizer(tokenizer)
    for index in list("한글".encode()) * 500:
        detokenizer.push(index)
        pending, _ = detokenizer._decoder.getstate()
        assert len(pending) <= 3


def test_first_space_of_a_metaspace_text(tmp_path: Path) -> None:
    """Where decode drops the first space, so does the stream: once, and not before there is text."""
    tokenizer = Tokenizer.load(write_metaspace(tmp_path))
    ids = tokenizer.encode(" two  spaces 한", add_special_tokens=False)
    parts, rest = pushed(tokenizer, ids)
    assert "".join(parts) + rest == tokenizer.decode(ids)
