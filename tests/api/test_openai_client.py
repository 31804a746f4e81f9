"""The official client works unchanged."""

from __future__ import annotations

import openai
import pytest

from engine.errors import Conflict, EngineFault, NotReady, Overloaded
from tests.api.scripted_engine import ScriptedEngine, says
from tests.tiny_tokenizer import EOS

HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("model", ["tiny", "A", "team/B"])
def test_chat_answers_with_the_model_that_was_asked(client: openai.OpenAI, model: str) -> None:
    """``model`` and text are those of the adapter that answered, whole and streamed (B15)."""
    answer = client.chat.completions.create(model=model, messages=HELLO)
    assert answer.model == model
    assert answer.choices[0].message.content == f"{model}/0"
    assert answer.choices[0].finish_reason == "stop"
    chunks = list(client.chat.completions.create(model=model, messages=HELLO, stream=True))
    assert {chunk.model for chunk in chunks} == {model}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == f"{model}/0"


def test_a_version_id_answers_too(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """``model`` may be a version; the fingerprint says which version answered."""
    version = engine.rows["A"].id
    answer = client.chat.completions.create(model=version, messages=HELLO)
    assert (answer.model, answer.system_fingerprint) == (version, version)


def test_stream_has_role_first_and_reason_last(client: openai.OpenAI) -> None:
    """The first chunk carries the role; the last content chunk its finish reason; no usage unless asked."""
    chunks = list(client.chat.completions.create(model="A", messages=HELLO, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_true_in_both_modes(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """Usage counts real tokens, streamed or not, with one last chunk of empty choices; the meters agree (B30)."""
    whole = client.chat.completions.create(model="A", messages=HELLO).usage
    chunks = list(client.chat.completions.create(model="A", messages=HELLO, stream=True, stream_options={"include_usage": True}))
    assert whole is not None
    prompt = len(engine.submitted[0].prompt_ids)
    assert (whole.prompt_tokens, whole.completion_tokens, whole.total_tokens) == (prompt, 4, prompt + 4)
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole
    assert all(chunk.usage is None for chunk in chunks[:-1])
    totals = engine.publisher.totals()
    assert (totals.prompt_tokens, totals.output_tokens) == (2 * prompt, 8)


def test_usage_counts_an_end_at_the_first_token(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """A text that ends at once is one token and no text (B30)."""
    engine.script = lambda _request, _choice: [EOS]
    answer = client.chat.completions.create(model="A", messages=HELLO)
    assert answer.choices[0].message.content == ""
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1
    chunks = list(client.chat.completions.create(model="A", messages=HELLO, stream=True))
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, "stop"]


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_n_choices_are_whole_and_in_order(client: openai.OpenAI, engine: ScriptedEngine, n: int) -> None:
    """Exactly n choices, each with its own text and reason, whole and streamed, lengths differing; usage sums all (B31)."""
    engine.script = lambda _request, choice: [*(b"x" * (choice + 1)), EOS]
    answer = client.chat.completions.create(model="A", messages=HELLO, n=n)
    assert [(choice.index, choice.message.content, choice.finish_reason) for choice in answer.choices] == [
        (index, "x" * (index + 1), "stop") for index in range(n)
    ]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == sum(index + 2 for index in range(n))
    texts, reasons = [""] * n, [""] * n
    for chunk in client.chat.completions.create(model="A", messages=HELLO, n=n, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        reasons[choice.index] += choice.finish_reason or ""
    assert texts == ["x" * (index + 1) for index in range(n)]
    assert reasons == ["stop"] * n


def test_several_prompts_give_choices_in_order(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """n choices of each prompt, prompt by prompt, whole and streamed (B31)."""
    engine.script = lambda request, choice: [*request.prompt_ids, *str(choice).encode(), EOS]
    expected = ["a0", "a1", "b0", "b1", "c0", "c1"]
    answer = client.completions.create(model="A", prompt=["a", "b", "c"], n=2)
    assert [choice.text for choice in answer.choices] == expected
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 18)
    texts = [""] * 6
    for chunk in client.completions.create(model="A", prompt=["a", "b", "c"], n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == expected


@pytest.mark.parametrize("prompt", ["hi", ["hi"], [104, 105], [[104, 105]]])
def test_completions_take_text_and_token_ids(client: openai.OpenAI, engine: ScriptedEngine, prompt: object) -> None:
    """All four spellings of one prompt are the same request."""
    client.completions.create(model="A", prompt=prompt)  # type: ignore[call-overload]
    assert engine.submitted[0].prompt_ids == (104, 105)


def test_chat_logprobs(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """One entry a token, with its bytes and the best alternatives; the same streamed."""
    engine.script = says("hé", ends=False)
    answer = client.chat.completions.create(model="A", messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2)
    assert answer.choices[0].logprobs is not None
    content = answer.choices[0].logprobs.content or []
    assert [entry.token for entry in content] == ["h", "bytes:\\xc3", "bytes:\\xa9"]
    assert content[1].bytes == [0xC3]
    assert [(top.token, top.logprob) for top in content[0].top_logprobs] == [("h", -0.5), ("i", -1.5)]
    streamed = []
    for chunk in client.chat.completions.create(model="A", messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2, stream=True):
        logprobs = chunk.choices[0].logprobs
        streamed += (logprobs.content or []) if logprobs else []
    assert [entry.token for entry in streamed] == [entry.token for entry in content]


def test_completion_logprobs_with_echo(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """With ``echo`` the prompt's tokens come first, the very first without a probability; offsets point into the text."""
    engine.script = says("xy")
    answer = client.completions.create(model="A", prompt="abc", echo=True, logprobs=1, max_tokens=2)
    choice = answer.choices[0]
    assert choice.text == "abcxy"
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["a", "b", "c", "x", "y"]
    assert choice.logprobs.token_logprobs == [None, -0.5, -0.5, -0.5, -0.5]
    assert choice.logprobs.text_offset == [0, 1, 2, 3, 4]
    assert choice.logprobs.top_logprobs is not None
    assert choice.logprobs.top_logprobs[1:] == [{letter: -0.5} for letter in "bcxy"]
    assert choice.logprobs.top_logprobs[0] is None
    text, tokens, offsets = "", [], []
    for chunk in client.completions.create(model="A", prompt="abc", echo=True, logprobs=1, max_tokens=2, stream=True):
        text += chunk.choices[0].text
        if chunk.choices[0].logprobs:
            tokens += chunk.choices[0].logprobs.tokens or []
            offsets += chunk.choices[0].logprobs.text_offset or []
    assert (text, tokens, offsets) == ("abcxy", ["a", "b", "c", "x", "y"], [0, 1, 2, 3, 4])


def test_text_offsets_count_characters(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """A token that is half a character begins where the character does."""
    engine.script = says("é!")
    logprobs = client.completions.create(model="A", prompt="a", echo=True, logprobs=0, max_tokens=3).choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens == ["a", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert logprobs.text_offset == [0, 1, 1, 2]


@pytest.mark.parametrize("stream", [False, True])
def test_echo_without_new_tokens_scores_the_prompt(client: openai.OpenAI, *, stream: bool) -> None:
    """``max_tokens`` 0 with ``echo`` gives the prompt and its probabilities, and no token of an answer (B25)."""
    call = {"model": "A", "prompt": "abc", "echo": True, "logprobs": 0, "max_tokens": 0}
    if stream:
        pieces = list(client.completions.create(**call, stream=True, stream_options={"include_usage": True}))
        choices, usage = [piece.choices[0] for piece in pieces[:-1]], pieces[-1].usage
    else:
        answer = client.completions.create(**call)
        choices, usage = answer.choices, answer.usage
    assert "".join(choice.text for choice in choices) == "abc"
    assert choices[-1].finish_reason == "length"
    assert [token for choice in choices if choice.logprobs for token in choice.logprobs.tokens or []] == ["a", "b", "c"]
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 0, 3)


def test_models_list_and_retrieve(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """Bases and aliases; an adapter has a parent, a root and its residency; names hold slashes."""
    cards = {card.id: card.model_dump() for card in client.models.list()}
    assert list(cards) == ["tiny", "A", "team/B"]
    assert (cards["tiny"]["parent"], cards["team/B"]["parent"]) == (None, "tiny")
    assert cards["team/B"]["root"] == "/allowed/a"
    assert cards["A"]["x_residency"] == {"tier": "device", "pinned": False, "bytes": 4096, "version": engine.rows["A"].id}
    assert client.models.retrieve("team/B").id == "team/B"
    assert client.models.retrieve(engine.rows["A"].id).id == engine.rows["A"].id
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")


def test_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    """404 with the code SDKs look for."""
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nope", messages=HELLO)
    assert (refused.value.code, refused.value.param, refused.value.type) == ("model_not_found", "model", "invalid_request_error")
    assert refused.value.request_id


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Overloaded("full", retry_after_s=2.5), openai.RateLimitError),
        (NotReady("starting"), openai.InternalServerError),
        (EngineFault("bug"), openai.InternalServerError),
        (Conflict("busy"), openai.ConflictError),
    ],
)
def test_refusals_become_the_clients_errors(
    client: openai.OpenAI, engine: ScriptedEngine, error: Exception, raised: type[Exception]
) -> None:
    """A refused submit has the status and headers that the client maps to its own class."""
    engine.refusal = error  # type: ignore[assignment]
    with pytest.raises(raised) as refused:
        client.chat.completions.create(model="A", messages=HELLO, stream=True)
    headers = refused.value.response.headers  # type: ignore[attr-defined]
    if isinstance(error, Overloaded):
        assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "2500")
    if isinstance(error, Conflict):
        assert headers["x-should-retry"] == "false"


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_token_keeps_its_status(client: openai.OpenAI, engine: ScriptedEngine, *, stream: bool) -> None:
    """Headers go out with the first token, so what fails earlier is a plain error response."""
    engine.breaks_at = (0, NotReady("stuck"))
    with pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model="A", messages=HELLO, stream=stream)
    assert refused.value.status_code == 503


def test_an_error_in_the_stream_is_an_event(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    """What fails later ends the stream with an error the client raises (B38)."""
    engine.breaks_at = (2, EngineFault("the engine died"))
    with pytest.raises(openai.APIError, match="the engine died"):
        list(client.chat.completions.create(model="A", messages=HELLO, stream=True))
    engine.breaks_at = None
    assert client.chat.completions.create(model="A", messages=HELLO).choices[0].message.content == "A/0"
