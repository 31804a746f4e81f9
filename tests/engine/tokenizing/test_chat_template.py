from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from engine.errors import BaseRefused, InvalidRequest
from engine.tokenizing import chat_template
from engine.tokenizing.chat_template import ChatTemplate
from engine.tokenizing.tokenizer import Tokenizer
from tests.tiny import write_base

SYSTEM, USER, ANSWER = ({"role": role, "content": f"from {role}"} for role in ("system", "user", "assistant"))
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}ok"
ALTERNATES = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}{{ m.content }};{% endfor %}"
)
RICH = """{%- set ns = namespace(seen=false) -%}
{%- macro say(m) -%}{{ m.role|upper }}: {{ m.content|trim }}{%- endmacro -%}
{{ bos_token if bos_token is defined else '' }}{% for m in messages if m.role != 'tool' %}
{% if loop.first %}[{% endif %}{{ say(m) }}{% if not loop.last %}, {% else %}]{% endif %}
{% generation %}{{ loop.index }}/{{ loop.length }}{% endgeneration %}
{% if m.role == 'assistant' %}{% set ns.seen = true %}{% continue %}{% endif %}
{{ m|tojson }} {{ {'b': '<é>'}|tojson(indent=2) }} {{ eos_token }}
{% endfor %}{{ ns.seen }}{% if tools %}{{ tools }}{% endif %}{{ 'x' * 3 }}{{ messages[::-1][0].content[1:] }}"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """TINY's."""
    return Tokenizer.load(write_base(tmp_path_factory.mktemp("base")))


@pytest.mark.parametrize("source", [None, RICH, ALTERNATES], ids=["chatml", "rich", "alternates"])
@pytest.mark.parametrize("ending", [{"add_generation_prompt": True}, {"add_generation_prompt": False}], ids=["to answer", "closed"])
def test_equals_transformers(tmp_path: Path, source: str | None, ending: dict[str, bool]) -> None:
    """The prompt is transformers' own, from tokenizer_config.json and from chat_template.jinja."""
    folder = write_base(tmp_path / "base")
    if source is not None:
        (folder / "chat_template.jinja").write_text(source)
    messages = [USER, ANSWER, {"role": "user", "content": " 한 \n"}]
    theirs = AutoTokenizer.from_pretrained(folder).apply_chat_template(messages, tokenize=False, **ending)
    ours = ChatTemplate.load(folder, Tokenizer.load(folder))
    assert ours.render(messages, **ending) == theirs


@pytest.mark.parametrize(
    ("source", "good", "bad", "words"),
    [
        (NO_SYSTEM, [USER], [SYSTEM, USER], "System role not supported"),
        (ALTERNATES, [USER, ANSWER, USER], [USER, USER], "Roles must alternate user/assistant"),
        (ALTERNATES, [USER], [ANSWER], "Roles must alternate user/assistant"),
        ("{{ messages[0].content + messages[1].content }}", [USER, ANSWER], [USER], "no element 1"),
        ("{{ messages[0].name.first ~ 'x' }}", [USER | {"name": {"first": "A"}}], [USER], "has no attribute"),
        ("{{ messages[0].content + 1 }}{{ messages }}", [], [USER], "can only concatenate str"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", [USER], [], "empty prompt"),
        ("{{ '' }}", [], [USER], "empty prompt"),
        (" \n ", [], [USER], "empty prompt"),
    ],
)
def test_the_template_s_objection_is_the_answer(
    tokenizer: Tokenizer, source: str, good: list[dict[str, Any]], bad: list[dict[str, Any]], words: str
) -> None:
    """Messages that the template refuses are the caller's mistake, in the template's own words; others still go through."""
    template = ChatTemplate(source, tokenizer)
    with pytest.raises(InvalidRequest, match=words) as refusal:
        template.render(bad)
    assert (refusal.value.code, refusal.value.param, refusal.value.status) == ("chat_template_error", "messages", 400)
    if good:
        assert template.render(good)


@pytest.mark.parametrize("source", ["{% if x %}", "{{ x", "{% nonsense %}", "{% for %}{% endfor %}", "{{ x|no_such_filter }}"])
def test_a_broken_template_stops_the_base(tmp_path: Path, source: str) -> None:
    """A syntax error is found at start-up."""
    folder = write_base(tmp_path / "base")
    (folder / "chat_template.jinja").write_text(source)
    with pytest.raises(BaseRefused, match="does not compile"):
        ChatTemplate.load(folder, Tokenizer.load(folder))


def test_no_template(tmp_path: Path) -> None:
    """A base without a template serves; only chat is refused. Of several named ones, the default counts."""
    folder = write_base(tmp_path / "base")
    config = json.loads((folder / "tokenizer_config.json").read_text())

    def load(value: object) -> ChatTemplate:
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": value}))
        return ChatTemplate.load(folder, Tokenizer.load(folder))

    for absent in (None, [{"name": "tool_use", "template": "x"}]):
        with pytest.raises(InvalidRequest, match="no chat template"):
            load(absent).render([USER])
    assert load([{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]).render([USER]) == "y"
    with pytest.raises(BaseRefused, match="must be text"):
        load(3)


def test_content_parts(tokenizer: Tokenizer) -> None:
    """Text parts are joined by newlines, null is empty; images and other kinds are refused by their type."""
    template = ChatTemplate("{% for m in messages %}[{{ m.content }}]{% endfor %}", tokenizer)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert template.render([{"role": "user", "content": parts}, {"role": "assistant", "content": None}]) == "[a\nb][]"
    for content, words in (
        ([{"type": "image_url", "image_url": {}}], "not 'image_url'"),
        (["a"], "not 'str'"),
        ([{"type": "text"}], "not 'text'"),
        (7, "not int"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            template.render([{"role": "user", "content": content}])


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x",
        "{% set s = messages[0].content %}{% for a in s %}{% for b in s %}{% for c in s %}{% endfor %}{% endfor %}{% endfor %}x",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}x",
        "{% for a in messages recursive %}{{ loop(messages) }}{{ loop(messages) }}{% endfor %}x",
        "{{ 'a' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ range(10000000) | list }}",
        "{% set ns = namespace(s=messages[0].content) %}{% for i in range(30) %}{% set ns.s = ns.s ~ ns.s %}{{ ns.s }}{% endfor %}",
    ],
)
def test_budget(tokenizer: Tokenizer, source: str) -> None:
    """Loops, recursion, powers and growing text end in a refusal within moments."""
    started = time.monotonic()
    with pytest.raises(InvalidRequest):
        ChatTemplate(source, tokenizer).render([USER | {"content": "x" * 500}])
    assert time.monotonic() - started < 5


def test_item_budget(tokenizer: Tokenizer) -> None:
    """Nested loops are refused by their count, before the clock would."""
    with pytest.raises(InvalidRequest, match="loops too often"):
        ChatTemplate("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x", tokenizer).render([USER])


def test_time_budget(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that is merely slow is stopped by the clock."""
    monkeypatch.setattr(chat_template, "MAX_TIME_S", 0.0)
    with pytest.raises(InvalidRequest, match="too long"):
        ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", tokenizer).render([USER])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__.__base__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
    ],
)
def test_sandbox(tokenizer: Tokenizer, source: str) -> None:
    """A template reaches no attributes behind the values, changes none and loads nothing."""
    messages = [dict(USER)]
    with pytest.raises(InvalidRequest):
        ChatTemplate(source, tokenizer).render(messages)
    assert messages == [USER]


def test_values_do_not_leak_between_renders(tokenizer: Tokenizer) -> None:
    """A template that counts in a namespace starts anew each time, and cannot spend another's budget."""
    source = "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
    template = ChatTemplate(source, tokenizer)
    assert [template.render([USER] * 3) for _ in range(3)] == ["3", "3", "3"]
