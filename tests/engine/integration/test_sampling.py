"""What a request may ask for, and when its answer ends."""

from __future__ import annotations

import asyncio

import pytest

from engine.errors import InvalidRequest
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, first_chunk, read
from tests.tiny import AdapterRecipe
from tests.tiny_tokenizer import EOS


async def test_choices_differ_and_repeat(engine: Make) -> None:
    """Three seeded choices differ from one another and come again the same, in another mixture; greedy choices are equal."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=91))
    options = {"n": 3, "temperature": 1.0, "seed": 5, "max_tokens": 12}
    first = await served.ask("x", **options)
    again, *_ = await asyncio.gather(served.ask("x", **options), served.ask(None), served.ask("x"))
    choices = [first.ids_of(index) for index in range(3)]
    assert len(set(choices)) == 3
    assert choices == [again.ids_of(index) for index in range(3)]
    assert first.record.completion_tokens == 36
    assert [sum(chunk.finish_reason is not None for chunk in first.chunks if chunk.index == index) for index in range(3)] == [1, 1, 1]
    greedy = await served.ask("x", n=2)
    assert greedy.ids_of(0) == greedy.ids_of(1)


async def test_another_seed_or_none_says_something_else(engine: Make) -> None:
    """Answers follow the seed; without one, two requests differ."""
    served = engine()
    texts = [(await served.ask(None, temperature=1.0, seed=seed)).ids for seed in (1, 1, 2, None, None)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 4


async def test_a_stop_string_ends_the_answer_before_itself(engine: Make) -> None:
    """The text ends where the stop string began, over token bounds, and no part of it was ever sent."""
    served = engine()
    bias = dict.fromkeys(range(97, 123), 100.0)  # letters, so that the text is plain
    whole = await served.ask(None, logit_bias=bias, temperature=1.0, seed=8, max_tokens=30)
    assert len(whole.text) == 30
    stop = whole.text[10:13]
    cut = whole.text.index(stop)
    ended = await served.ask(None, logit_bias=bias, temperature=1.0, seed=8, max_tokens=30, stop=("nope!", stop))
    assert ended.text == whole.text[:cut]
    assert ended.record.finish_reason == "stop"
    assert ended.record.completion_tokens == cut + 3
    assert whole.record.finish_reason == "length"


async def test_an_end_token_ends_the_answer(engine: Make) -> None:
    """The end token stops the answer and shows in no text, unless it is to be ignored."""
    served = engine()
    ended = await served.ask(None, logit_bias={EOS: 1000.0}, ignore_eos=False)
    assert (ended.ids, ended.text, ended.record.finish_reason) == ((EOS,), "", "stop")
    ignored = await served.ask(None, logit_bias={EOS: 1000.0}, max_tokens=3)
    assert (len(ignored.ids), ignored.record.finish_reason) == (3, "length")


async def test_the_context_ends_the_answer(engine: Make) -> None:
    """Tokens asked for beyond the context are not given: the answer ends with ``length``; a bystander goes on."""
    served = engine()
    prompt = tuple(number % 250 for number in range(250))
    answer, other = await asyncio.gather(served.ask(None, prompt, max_tokens=10_000), served.ask(None))
    assert (len(answer.ids), answer.record.finish_reason) == (6, "length")
    assert len(other.ids) == 24


@pytest.mark.parametrize(
    ("prompt", "code"),
    [((), "empty_prompt"), ((5, 320), "invalid_value"), ((-1,), "invalid_value"), (tuple([1] * 256), "context_length_exceeded")],
)
async def test_a_prompt_that_cannot_run_is_refused_at_once(engine: Make, prompt: tuple[int, ...], code: str) -> None:
    """Nothing is queued, and the refusal names the prompt."""
    served = engine()
    with pytest.raises(InvalidRequest) as caught:
        served.submit(None, prompt)
    assert (caught.value.code, caught.value.param) == (code, "prompt")
    assert not served.host.requests.streams


async def test_two_requests_of_one_id_do_not_meet(engine: Make) -> None:
    """A second request under the id of one that runs answers under another, also of another tenant, which learns nothing of the first."""
    served = engine()
    stream = served.submit(None, request_id="same", max_tokens=100)
    await first_chunk(stream)
    other = served.submit(None, request_id="same", tenant="other", max_tokens=3)
    assert len((await read(other)).ids) == 3
    assert len((await read(stream)).ids) == 99
    assert stream.record is not None
    assert other.record is not None
    assert stream.record.id == "same" != other.record.id


async def test_narrow_sampling_is_greedy(engine: Make) -> None:
    """``top_k`` 1 and a ``top_p`` near nothing choose the best token at any temperature."""
    served = engine()
    greedy = (await served.ask(None, PROMPT)).ids
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}, {"top_k": 5, "top_p": 1e-9}):
        assert (await served.ask(None, PROMPT, temperature=1.5, **narrow)).ids == greedy
