"""Jinja as chat templates use it: immutable values, no way out, every loop and macro charged to a budget."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

BUDGET = "loradeck_budget"
"""The template variable that holds the render's Budget."""
MAX_REPEAT = 10_000
"""Largest number that text or a list is multiplied with."""


class OverBudget(Exception):
    """The template wants more loops, text or time than it gets."""


class Budget:
    """What one render may use. Owned by the rendering thread."""

    def __init__(self, *, items: int, chars: int, deadline_s: float) -> None:
        """``deadline_s``: monotonic seconds."""
        self._items = items
        self._chars = chars
        self._deadline_s = deadline_s

    def charge(self, items: int) -> None:
        """Raises OverBudget when these are too many, or the time is up."""
        self._items -= items
        if self._items < 0:
            raise OverBudget("the chat template loops too often over these messages")
        if time.monotonic() > self._deadline_s:
            raise OverBudget("the chat template takes too long over these messages")

    def charged(self, chunks: Iterable[str]) -> Iterator[str]:
        """The chunks, until they are too long together."""
        for chunk in chunks:
            self._chars -= len(chunk)
            if self._chars < 0:
                raise OverBudget("the chat template makes too long a prompt of these messages")
            self.charge(0)
            yield chunk

    def each(self, values: Iterable[Any]) -> Iterator[Any]:
        """The values of an iterator whose length is not known, each charged."""
        for value in values:
            self.charge(1)
            yield value


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment that transformers gives templates, with multiplication bounded."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 any template value
        """Raises OverBudget where a product could be huge."""
        if operator == "**":
            raise OverBudget("chat templates may not raise to a power")
        for value, times in ((left, right), (right, left)):
            if isinstance(value, Sized) and isinstance(times, int) and times > MAX_REPEAT:
                raise OverBudget(f"the chat template repeats a value {times} times")
        return super().call_binop(context, operator, left, right)


class GenerationBlock(Extension):
    """``{% generation %}…{% endgeneration %}`` marks the assistant's words for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 jinja2 declares it as a plain class attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """The body in its own scope."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def compile_template(source: str) -> Template:
    """The template with every loop and macro charged to the variable ``BUDGET``. Raises jinja2.TemplateSyntaxError."""
    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationBlock])
    environment.filters |= {"tojson": to_json, "charged": charged}
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    tree = environment.parse(source)
    for loop in tree.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, "charged", [], [], None, None)
    for macro in tree.find_all(nodes.Macro):
        macro.body.insert(0, nodes.ExprStmt(nodes.Filter(nodes.Const("1"), "charged", [], [], None, None)))
    tree.set_environment(environment)
    return environment.from_string(tree)


@pass_context
def charged(context: Context, values: Any) -> Any:  # noqa: ANN401 any template value
    """The same values; a loop over them is paid for."""
    budget: Budget = context[BUDGET]
    if isinstance(values, Sized):
        budget.charge(len(values))
        return values
    return budget.each(values)


def raise_exception(message: str) -> None:
    """How a template objects."""
    raise TemplateError(message)


def strftime_now(pattern: str) -> str:
    """The local time, as templates print today's date."""
    return dt.datetime.now().astimezone().strftime(pattern)


def to_json(
    value: Any,  # noqa: ANN401 any template value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 templates pass it so
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 likewise
) -> str:
    """JSON without HTML escapes, with transformers' arguments."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
