"""Bad input is a 4xx that names the field, comes before the engine hears of it, and costs little (counted in processor time)."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.scripted_engine import ScriptedEngine

CHAT: dict[str, Any] = {"model": "A", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION: dict[str, Any] = {"model": "A", "prompt": "hi"}
DEEP = "[" * 10_000 + "]" * 10_000
NOTHING = object()


@pytest.fixture(autouse=True)
async def bystander(http: httpx.AsyncClient, engine: ScriptedEngine) -> AsyncIterator[None]:
    """Before and after each case a healthy request has its answer, and the bad one reached nothing."""
    before = await http.post("/v1/chat/completions", json=CHAT)
    engine.submitted.clear()
    yield
    after = await http.post("/v1/chat/completions", json=CHAT)
    assert (before.status_code, after.status_code) == (200, 200)
    assert before.json()["choices"] == after.json()["choices"]


def refused(response: httpx.Response, status: int, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The error of a refusal in OpenAI's shape."""
    assert response.status_code == status, response.text[:500]
    error: dict[str, Any] = response.json()["error"]
    assert {"message", "type", "param", "code", "expected", "found"} <= error.keys()
    assert error["message"]
    if param is not None:
        assert error["param"] == param
    if code is not None:
        assert error["code"] == code
    return error


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("model", ["nope", "", None, "A ", " A", "a", "../x", "tiny/", "x" * 4096, "A\0", "A\n"])
async def test_unknown_model_is_never_the_bases_answer(
    http: httpx.AsyncClient, engine: ScriptedEngine, path: str, model: str | None
) -> None:
    """To the letter or 404, and nothing runs (B15, D04)."""
    body = {**(CHAT if "chat" in path else COMPLETION), "model": model}
    error = refused(await http.post(path, json=body), 404, param="model", code="model_not_found")
    assert len(error["message"]) < 400
    assert engine.submitted == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", 2.1),
        ("temperature", "1"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_p", 7),
        ("top_k", 0.5),
        ("top_k", 0.01),
        ("top_k", -2),
        ("top_k", 10_000_000),
        ("top_k", 321),
        ("top_k", True),
        ("n", 0),
        ("n", -1),
        ("n", 17),
        ("n", 100_000),
        ("n", True),
        ("max_tokens", -1),
        ("max_tokens", 0),
        ("max_tokens", 2**31),
        ("max_tokens", "5"),
        ("max_tokens", True),
        ("max_tokens", 10**30),
        ("seed", 2**63),
        ("seed", 1.5),
        ("stop", ["x"] * 17),
        ("stop", [""]),
        ("stop", ["x" * 257]),
        ("stop", [1]),
        ("stop", ["x"] * 10_000),
        ("logit_bias", {"320": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": "2"}),
        ("logit_bias", {str(number): 1 for number in range(301)}),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("best_of", 3),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_sampling_out_of_range(http: httpx.AsyncClient, engine: ScriptedEngine, path: str, field: str, value: object) -> None:
    """Each limit is checked before scheduling and names its field (B26, D15)."""
    response = await http.post(path, json={**(CHAT if "chat" in path else COMPLETION), field: value})
    error = refused(response, 400)
    assert error["param"].split(".")[0] == field
    assert engine.submitted == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0),
        ("temperature", 1e-6),
        ("temperature", 2),
        ("temperature", None),
        ("top_p", 1),
        ("top_p", 1e-9),
        ("top_k", 0),
        ("top_k", -1),
        ("top_k", 320),
        ("n", 16),
        ("max_tokens", 1),
        ("seed", -1),
        ("stop", ["x"] * 16),
        ("stop", "x" * 256),
        ("stop", []),
        ("logit_bias", {"0": -100, "319": 100}),
        ("user", "somebody"),
        ("metadata", {"a": "b"}),
        ("made_up_field", {"x": [1]}),
        ("presence_penalty", 0),
        ("frequency_penalty", 0.0),
        ("tools", []),
        ("tool_choice", "none"),
        ("response_format", {"type": "text"}),
        ("best_of", 1),
        ("service_tier", "auto"),
    ],
)
async def test_boundary_values_and_unknown_fields_are_taken(http: httpx.AsyncClient, field: str, value: object) -> None:
    """Limits are inclusive; what asks for nothing and what we do not know is ignored (B26)."""
    response = await http.post("/v1/chat/completions", json={**CHAT, field: value})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("field", [{"logit_bias": {"k" * 1_000_000: 101}}, {"chat_template" + "k" * 1_000_000: 1}])
async def test_a_name_of_the_callers_own_is_given_back_shortened(http: httpx.AsyncClient, field: dict[str, Any]) -> None:
    """However long a key is that the refusal names, the answer is a page at most."""
    response = await http.post("/v1/chat/completions", json={**CHAT, **field})
    assert refused(response, 400)["param"].startswith(next(iter(field))[:10])
    assert len(response.content) < 5000


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ["temperature", "top_p", "made_up_field"])
async def test_numbers_that_are_none(http: httpx.AsyncClient, field: str, number: str) -> None:
    """NaN and infinities in raw JSON are refused wherever they stand (B26)."""
    body = json.dumps(CHAT)[:-1] + f', "{field}": {number}}}'
    response = await http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    if field == "made_up_field" and "999" in number:
        assert response.status_code in {200, 400}
    else:
        refused(response, 400)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        '"x"',
        "\ufeff{}",
        '{"model": "A"',
        b"\xff\xfe",
        b'{"model": "\xff"}',
        '{"model": "\\ud800"}',
        DEEP,
        '{"a":' * 5000,
    ],
)
async def test_bodies_that_are_no_object(http: httpx.AsyncClient, body: str | bytes) -> None:
    """Broken, deep and foreign JSON is 400 in under 100 ms."""
    begun_s = time.process_time()
    refused(await http.post("/v1/chat/completions", content=body), 400, code="invalid_json")
    assert time.process_time() - begun_s < 0.1


@pytest.mark.parametrize(
    "prompt", ["", [""], [], [[]], None, {}, 5, [1.5], ["a", 1], [True], [[1], "a"], [320], [-1], [[1, 999]], [None], [["a"]]]
)
@pytest.mark.parametrize("max_tokens", [0, 4])
async def test_prompts_that_cannot_be_answered(http: httpx.AsyncClient, engine: ScriptedEngine, prompt: object, max_tokens: int) -> None:
    """Empty prompts of a base without BOS, and things that are no tokens (B25)."""
    body = {"model": "A", "prompt": prompt, "max_tokens": max_tokens, "echo": max_tokens == 0}
    refused(await http.post("/v1/completions", json=body), 400, param="prompt")
    assert engine.submitted == []


@pytest.mark.parametrize(
    "messages",
    [
        [],
        None,
        "hi",
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "alien", "content": "x"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": ["x"]}],
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}],
        [{"role": "user", "content": "x" * 400}],
    ],
)
async def test_messages_that_cannot_be_answered(http: httpx.AsyncClient, engine: ScriptedEngine, messages: object) -> None:
    """Empty and foreign messages name the field (B25)."""
    error = refused(await http.post("/v1/chat/completions", json={"model": "A", "messages": messages}), 400)
    assert error["param"].split(".")[0] == "messages"
    assert engine.submitted == []


async def test_empty_content_and_text_parts_are_fine(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """A template makes a prompt of an empty message; text parts are joined (B25, B29)."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for content in ("", parts):
        response = await http.post("/v1/chat/completions", json={"model": "A", "messages": [{"role": "user", "content": content}]})
        assert response.status_code == 200
    assert b"a\nb" in bytes(token for token in engine.submitted[-1].prompt_ids if token < 256)


async def test_a_missing_field_is_named(http: httpx.AsyncClient) -> None:
    """Required fields have a code of their own."""
    refused(await http.post("/v1/chat/completions", json={"model": "A"}), 400, param="messages", code="missing_required_parameter")
    refused(await http.post("/v1/completions", json={"prompt": "x"}), 400, param="model", code="missing_required_parameter")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {"type": "strin"}}}),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "regex", "regex": "foo**"}),
        ("response_format", {"type": "json_schema", "json_schema": "x" * 1_000_000}),
        ("tools", [{"type": "function", "function": {"name": "bad name!"}}]),
        ("tool_choice", "auto"),
        ("guided_regex", "foo**"),
        ("structured_outputs", {"json": {}}),
        ("chat_template", "{% for i in range(10**9) %}x{% endfor %}"),
        ("chat_template_kwargs", {"chat_template": "{{ x }}"}),
        ("chat_template_kwargs", {"tokenize": True}),
        ("chat_template_kwargs", {"messages": []}),
        ("chat_template_args", {"enable_thinking": False}),
        ("Chat-Template", "x"),
        ("chatTemplate", "x"),
        ("prompt_logprobs", 5),
        ("prompt_logprobs", 0),
        ("best_of", 5),
        ("suffix", "x"),
        ("presence_penalty", 0.5),
        ("min_p", 0.1),
        ("stop_token_ids", [1]),
        ("adapter_id", "B"),
    ],
)
async def test_what_is_not_supported_is_refused(http: httpx.AsyncClient, engine: ScriptedEngine, field: str, value: object) -> None:
    """A field that would change the answer is never ignored, whatever nonsense it holds, and costs under 50 ms (B32, D01)."""
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)):
        begun_s = time.process_time()
        response = await http.post(path, json={**body, field: value})
        assert time.process_time() - begun_s < 0.1
        error = refused(response, 400, param=field, code="unsupported_parameter")
        assert "not supported" in error["message"]
    assert engine.submitted == []


async def test_deep_template_arguments_are_refused_quickly(http: httpx.AsyncClient) -> None:
    """10,000 levels are no JSON we read (D01)."""
    body = json.dumps(CHAT)[:-1] + ', "chat_template_kwargs": ' + '{"a":' * 10_000 + "1" + "}" * 10_001
    begun_s = time.process_time()
    refused(await http.post("/v1/chat/completions", content=body), 400)
    assert time.process_time() - begun_s < 0.05


async def test_the_templates_own_words_reach_the_caller(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """A template that objects is 400 with its message, and the engine never hears of it; what it allows passes (B29)."""
    source = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role here') }}{% endif %}{{ messages[0]['content'] }}"
    plain = engine.chat_template
    engine.chat_template = type(plain)(source, engine.tokenizer)
    try:
        system = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
        error = refused(await http.post("/v1/chat/completions", json={"model": "A", "messages": system}), 400, param="messages")
        assert "no system role here" in error["message"]
        assert error["code"] == "chat_template_error"
        assert engine.submitted == []
        assert (await http.post("/v1/chat/completions", json={"model": "A", "messages": system[1:]})).status_code == 200
        refused(await http.post("/v1/chat/completions", json={"model": "A", "messages": [{"role": "user", "content": ""}]}), 400)
    finally:
        engine.chat_template = plain


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ("/v1/chat/completions", {**CHAT, "top_logprobs": 2}, "top_logprobs"),
        ("/v1/chat/completions", {**CHAT, "logprobs": 5}, "logprobs"),
        ("/v1/completions", {**COMPLETION, "logprobs": -1}, "logprobs"),
        ("/v1/completions", {**COMPLETION, "logprobs": 320}, "logprobs"),
        ("/v1/completions", {**COMPLETION, "logprobs": 319}, "logprobs"),
        ("/v1/completions", {**COMPLETION, "logprobs": True}, "logprobs"),
        ("/v1/completions", {"model": "A", "prompt": ["x"] * 50_000}, "prompt"),
        ("/v1/completions", {"model": "A", "prompt": [[1]] * 129}, "prompt"),
        ("/v1/completions", {"model": "A", "prompt": "x" * 1_000_000}, "prompt"),
        ("/v1/completions", {"model": "A", "prompt": [1] * 256}, "prompt"),
        ("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": "x"}] * 50_000}, "messages"),
        ("/v1/chat/completions", {**CHAT, "max_completion_tokens": 1000}, "max_completion_tokens"),
    ],
)
async def test_cheap_words_with_huge_cost(http: httpx.AsyncClient, engine: ScriptedEngine, path: str, body: Any, param: str) -> None:
    """Sentinels are resolved, then bounded; lists are counted before they are worked on; all in under 100 ms (D15)."""
    content = json.dumps(body).encode()
    begun_s = time.process_time()
    refused(await http.post(path, content=content), 400, param=param)
    assert time.process_time() - begun_s < 0.1
    assert engine.submitted == []


async def test_a_stream_beside_bad_requests_keeps_its_pace(http: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    """Bodies that cost the most to refuse do not hold the loop (D01, D15)."""
    engine.script, engine.pace_s = (lambda _request, _choice: b"x" * 100), 0.002
    gaps_s: list[float] = []  # of the loop's own processor time, which no neighbour on the machine can stretch

    async def listen() -> None:
        body = {**CHAT, "stream": True, "max_tokens": 100}
        response = await http.post("/v1/chat/completions", json=body)
        assert response.text.count("data: ") > 100

    async def watch() -> None:
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(0.001)
            gaps_s.append(time.thread_time() - before_s)

    watcher = asyncio.ensure_future(watch())
    listener = asyncio.ensure_future(listen())
    bomb = json.dumps({"model": "A", "prompt": ["x"] * 50_000}).encode()
    for _ in range(5):
        refused(await http.post("/v1/completions", content=bomb), 400)
    await listener
    watcher.cancel()
    engine.script, engine.pace_s = ScriptedEngine.__init__.__globals__["says_own_name"], 0.0
    assert max(gaps_s) < 0.1


async def test_bodies_over_the_cap(address: str, engine: ScriptedEngine) -> None:
    """413 at once: by the declared length without reading, by count when none is declared, and never held in memory (D15)."""
    chunk = b" " * 2**20

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield chunk

    async with httpx.AsyncClient(base_url=address, timeout=20) as client:
        warm = await client.post("/v1/completions", json=COMPLETION)
        assert warm.status_code == 200
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        declared = await client.post("/v1/completions", content=endless(), headers={"content-length": str(64 * 2**20)})
        refused(declared, 413, code="payload_too_large")
        assert declared.headers["connection"] == "close"
        refused(await client.post("/api/adapters", content=endless()), 413, code="payload_too_large")
        lying = await client.post("/v1/completions", content=b"{}", headers={"content-length": "2"})
        refused(lying, 400)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after_kib - before_kib < 30 * 1024
    assert engine.submitted[1:] == []


async def test_the_413_does_not_wait_for_the_body(address: str) -> None:
    """A client that declares 64 MB and sends nothing has its answer in under 100 ms (D15)."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    begun_s = time.process_time()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 67108864\r\n\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), timeout=10)
    assert time.process_time() - begun_s < 0.1
    assert head.startswith(b"HTTP/1.1 413")
    writer.close()
    await writer.wait_closed()
