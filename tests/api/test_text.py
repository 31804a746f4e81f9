"""What a client reads: whole characters, no stop strings, the same text streamed and not."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from tests.api.scripted_engine import ScriptedEngine
from tests.tiny_tokenizer import EOS, IM_END

CHAT: dict[str, Any] = {"model": "A", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}


async def both(http: httpx.AsyncClient, **fields: Any) -> tuple[str, str, list[str]]:
    """(whole text, its finish reason, the pieces of the stream), having checked that stream and whole agree."""
    whole = (await http.post("/v1/chat/completions", json=CHAT | fields)).json()["choices"][0]
    response = await http.post("/v1/chat/completions", json={**CHAT, **fields, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    choices = [orjson.loads(event)["choices"][0] for event in events]
    pieces = [choice["delta"].get("content", "") for choice in choices]
    assert "".join(pieces) == whole["message"]["content"]
    assert choices[-1]["finish_reason"] == whole["finish_reason"]
    return whole["message"]["content"], whole["finish_reason"], pieces


@pytest.mark.parametrize(
    ("stop", "text", "reason"),
    [
        ("cDE", "ab", "stop"),
        ("F", "abcDE", "stop"),
        ("zzz", "abcDEF", "stop"),
        ("EFG", "abcDEF", "stop"),
        (["cDX", "cDEX", "cDE", "cD"], "ab", "stop"),
        ("a", "", "stop"),
        (["F", "DE"], "abc", "stop"),
    ],
)
async def test_nothing_of_a_stop_string_is_sent(
    http: httpx.AsyncClient, engine: ScriptedEngine, stop: object, text: str, reason: str
) -> None:
    """A matched stop leaves no trace in any piece; held text comes when the match fails (B21)."""
    with engine.scripted(lambda _request, _choice: [*b"abcDEF", EOS]):
        found, why, pieces = await both(http, stop=stop)
    assert (found, why) == (text, reason)
    sent = ""
    for piece in pieces:
        sent += piece
        assert text.startswith(sent)


async def test_a_stop_of_several_bytes(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """A stop whose characters span tokens is found, and no half of it shown (B21)."""
    with engine.scripted(lambda _request, _choice: [*"ja ✓ nein".encode(), EOS]):
        found, why, _ = await both(http, stop="✓ n")
    assert (found, why) == ("ja ", "stop")


@pytest.mark.parametrize("text", ["한국어 문장입니다", "👩‍👩‍👧‍👦 family", "naïve ☕"])
async def test_characters_are_never_split(http: httpx.AsyncClient, engine: ScriptedEngine, text: str) -> None:
    """One byte a token, and yet every piece is whole characters (B22)."""
    with engine.scripted(lambda _request, _choice: [*text.encode(), EOS]):
        found, _, pieces = await both(http)
    assert found == text
    assert not any("\ufffd" in piece for piece in pieces)


async def test_a_cut_character_is_flushed_at_the_end(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Cut after two of four bytes: only then U+FFFD, once (B22)."""
    with engine.scripted(lambda _request, _choice: "ab👍".encode()):
        found, why, _ = await both(http, max_tokens=4)
    assert (found, why) == ("ab\ufffd", "length")


@pytest.mark.parametrize("end", [EOS, IM_END])
async def test_every_end_token_ends_and_none_is_shown(http: httpx.AsyncClient, engine: ScriptedEngine, end: int) -> None:
    """The union of what the base's files call an end (B33)."""
    with engine.scripted(lambda _request, _choice: [*b"ok", end, *b"junk"]):
        found, why, _ = await both(http)
    assert (found, why) == ("ok", "stop")


async def test_ignore_eos_goes_on(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Asked to, an end token is passed over and not shown (B33)."""
    with engine.scripted(lambda _request, _choice: [*b"ok", EOS, *b"more"]):
        found, why, _ = await both(http, ignore_eos=True, max_tokens=7)
    assert (found, why) == ("okmore", "length")


async def test_timing_headers(http: httpx.AsyncClient) -> None:
    """A whole answer says where its time went; a stream, what is known when it begins."""
    whole = await http.post("/v1/chat/completions", json=CHAT)
    assert whole.headers["server-timing"] == "queue;dur=1.0, adapter_load;dur=2.0, prefill;dur=3.0, decode;dur=4.0"
    stream = await http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert stream.headers["server-timing"].startswith("first_token;dur=")
    assert "content-length" not in stream.headers
