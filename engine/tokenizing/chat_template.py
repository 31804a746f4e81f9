"""Messages to a prompt through the base's own chat template, in a sandbox and under a budget."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import jinja2

from engine.errors import BaseRefused, InvalidRequest
from engine.tokenizing.template_sandbox import BUDGET, Budget, OverBudget, compile_template
from engine.tokenizing.tokenizer import read_optional

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.tokenizing.tokenizer import Tokenizer

MAX_CHARS = 4 * 2**20
MAX_ITEMS = 200_000
"""Rounds of all loops and calls of all macros together."""
MAX_TIME_S = 2.0
TEMPLATE_FAULTS = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, OverBudget)
"""What a template may raise over messages it does not like."""


class ChatTemplate:
    """A compiled template. Immutable; may render in several threads at once."""

    def __init__(self, source: str | None, tokenizer: Tokenizer) -> None:
        """``None``: the base has no template, and every render is refused. Raises BaseRefused where the source is not a template."""
        self._named_tokens = dict(tokenizer.named_tokens)
        try:
            self._template = None if source is None else compile_template(source)
        except (jinja2.TemplateSyntaxError, RecursionError) as error:
            raise BaseRefused(f"the chat template does not compile: {error}", code="chat_template_syntax", param="chat_template") from None

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer) -> ChatTemplate:
        """From chat_template.jinja or tokenizer_config.json. Raises BaseRefused where it does not compile."""
        path = folder / "chat_template.jinja"
        if path.is_file():
            return cls(path.read_text(encoding="utf-8"), tokenizer)
        return cls(_configured(read_optional(folder / "tokenizer_config.json").get("chat_template")), tokenizer)

    def render(self, messages: Sequence[dict[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The prompt. Pure computation of at most ``MAX_TIME_S``: call it off the event loop.

        Raises InvalidRequest with the template's own words when it objects to the messages, goes over its budget or yields nothing.
        """
        if self._template is None:
            raise _refusal("this base has no chat template; use /v1/completions")
        budget = Budget(items=MAX_ITEMS, chars=MAX_CHARS, deadline_s=time.monotonic() + MAX_TIME_S)
        values = {"messages": [flat_message(each) for each in messages], "add_generation_prompt": add_generation_prompt}
        try:
            chunks = self._template.generate(**self._named_tokens, **values, tools=None, documents=None, **{BUDGET: budget})
            prompt = "".join(budget.charged(chunks))
        except TEMPLATE_FAULTS as error:
            raise _refusal(str(error) or type(error).__name__) from None
        if not prompt.strip():
            raise _refusal("the chat template made an empty prompt of these messages")
        return prompt


def flat_message(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its content as one string: text parts joined by newlines, null as empty. Raises InvalidRequest for other parts."""
    content = message.get("content")
    if isinstance(content, str):
        return message
    if content is None:
        return message | {"content": ""}
    if not isinstance(content, list | tuple):
        raise _refusal(f"content must be text or a list of text parts, not {type(content).__name__}")
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise _refusal(f"content parts must be of type 'text', not {kind!r}")
    return message | {"content": "\n".join(part["text"] for part in content)}


def _configured(value: object) -> str | None:
    """tokenizer_config.json holds one template, or a list of named ones of which ``default`` counts."""
    if isinstance(value, list):
        value = next((each.get("template") for each in value if isinstance(each, dict) and each.get("name") == "default"), None)
    if value is not None and not isinstance(value, str):
        raise BaseRefused("chat_template must be text", param="chat_template", found=json.dumps(value)[:80])
    return value


def _refusal(message: str) -> InvalidRequest:
    return InvalidRequest(message, code="chat_template_error", param="messages")
