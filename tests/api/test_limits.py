"""What a client is told about its limits."""

from __future__ import annotations

import httpx
import openai
import pytest

from engine.allowance import Allowance
from engine.api.limit_headers import duration
from tests.api.scripted_engine import ScriptedEngine

CHAT = {"model": "A", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_say_what_is_left(http: httpx.AsyncClient, engine: ScriptedEngine, *, stream: bool) -> None:
    """In OpenAI's headers, streaming and not; without limits there are none."""
    before = await http.post("/v1/chat/completions", json={**CHAT, "stream": stream})
    assert not [name for name in before.headers if name.startswith("x-ratelimit")]
    engine.gate.set_allowances({"default": Allowance(requests_per_minute=3, tokens_per_minute=1000)}, {})
    answer = await http.post("/v1/chat/completions", json={**CHAT, "stream": stream})
    assert answer.headers["x-ratelimit-limit-requests"] == "3"
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"
    assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
    assert 900 < int(answer.headers["x-ratelimit-remaining-tokens"]) < 990
    assert answer.headers["x-ratelimit-reset-tokens"] == "1m0s" or answer.headers["x-ratelimit-reset-tokens"].startswith("59.")


def test_a_refusal_says_whose_limit_and_when(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """OpenAI's client sees its own error, with the time to wait, the scope, and what is left."""
    engine.gate.set_allowances({"default": Allowance(requests_per_minute=1)}, {})
    client.chat.completions.create(model="A", messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(openai.RateLimitError) as refusal:
        client.chat.completions.create(model="A", messages=[{"role": "user", "content": "hi"}])
    body = refusal.value.response.json()["error"]
    assert (body["type"], body["code"], body["param"]) == ("rate_limit_error", "rate_limit_exceeded", "requests_per_minute")
    assert body["scope"] == "tenant default"
    headers = refusal.value.response.headers
    assert 58 <= int(headers["retry-after"]) <= 60
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert "x-should-retry" not in headers


def test_without_max_tokens_the_limits_decide(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """A chat that does not say how long it may be fits what its tenant may have, instead of being refused."""
    engine.gate.set_allowances({"default": Allowance(max_tokens=7)}, {})
    client.chat.completions.create(model="A", messages=[{"role": "user", "content": "hi"}])
    assert engine.submitted[-1].sampling.max_tokens == 7
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model="A", messages=[{"role": "user", "content": "hi"}], max_tokens=8)
    assert refusal.value.param == "max_tokens"


def test_a_spent_month_is_not_tried_again(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """Clients are told not to wait for weeks."""
    engine.gate.set_allowances({"default": Allowance(monthly_tokens=1)}, {})
    with pytest.raises(openai.RateLimitError) as refusal:
        client.chat.completions.create(model="A", messages=[{"role": "user", "content": "hi"}], max_tokens=1)
    assert refusal.value.code == "insufficient_quota"
    assert refusal.value.response.headers["x-should-retry"] == "false" or int(refusal.value.response.headers["retry-after"]) <= 120


@pytest.mark.parametrize(("seconds", "text"), [(0.25, "250ms"), (1.0, "1s"), (12.5, "12.5s"), (60.0, "1m0s"), (366.0, "6m6s")])
def test_durations(seconds: float, text: str) -> None:
    """As OpenAI writes them."""
    assert duration(seconds) == text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_priority_is_passed_on(http: httpx.AsyncClient, engine: ScriptedEngine, path: str) -> None:
    """As vLLM has it: an integer, the lower goes first; a number without bounds or of another kind is refused by name."""
    body = {"model": "A", "max_tokens": 3, **({"prompt": "x"} if path == "/v1/completions" else {"messages": CHAT["messages"]})}
    for priority in (None, -7, 3):
        assert (await http.post(path, json={**body, "priority": priority})).status_code == 200
    assert [request.priority for request in engine.submitted] == [0, -7, 3]
    for wrong in (1.5, "1", True, 1001, -(2**70)):
        refusal = await http.post(path, json={**body, "priority": wrong})
        assert (refusal.status_code, refusal.json()["error"]["param"]) == (400, "priority"), wrong
