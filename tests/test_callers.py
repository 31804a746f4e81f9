"""Whoever changes something says who asked: every call of a mutation in the doors passes the caller that was proven."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.test_architecture import Source, report, sources

PASS_ON = {"ask", "do", "send"}
"""Of the console: they call the method that they are given and add the page's caller, as ``test_the_console_adds_its_caller`` proves."""


def mutations() -> set[tuple[str, str]]:
    """(owner, method) of the public methods that take a ``caller``; the owner is called as its class is: ``Engine`` is ``engine``."""
    return {
        (re.sub(r"(?<!^)(?=[A-Z])", "_", cls.name).lower(), node.name)
        for source in sources()
        if source.path.startswith("engine/") and not source.path.startswith("engine/api/")
        for cls in ast.walk(source.tree)
        if isinstance(cls, ast.ClassDef)
        for node in cls.body
        if isinstance(node, ast.FunctionDef) and "caller" in {argument.arg for argument in node.args.kwonlyargs}
    }


def owner(node: ast.Attribute) -> str:
    """``self._engine.tenants.x`` → ``tenants``."""
    return ast.unparse(node.value).rpartition(".")[2].lstrip("_")


def is_passed_on(call: ast.Call) -> bool:
    """Whether it is a call of what adds the caller."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in PASS_ON


def calls(source: Source) -> Iterator[tuple[ast.Attribute, ast.Call | None]]:
    """Each mention of an engine method with the call it is made in, as its function or as an argument (``partial(engine.x, …)``).

    What is awaited is a method of the console's own, and what is given to one of ``PASS_ON``, at once or as a ``partial`` beside, is
    called by it.
    """
    made, passed = {}, set()
    for function in ast.walk(source.tree):
        if isinstance(function, ast.Await) and isinstance(function.value, ast.Call):
            passed.add(id(function.value.func))
        elif isinstance(function, ast.Call):
            made |= {id(part): function for part in (function.func, *function.args)}
            passed |= {id(part) for part in function.args if is_passed_on(function)}
        elif isinstance(function, ast.AsyncFunctionDef):
            inner = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
            if any(map(is_passed_on, inner)):
                passed |= {id(call.args[0]) for call in inner if isinstance(call.func, ast.Name) and call.func.id == "partial"}
    mentions = (node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute) and id(node) not in passed)
    yield from ((node, made.get(id(node))) for node in mentions)


def test_the_console_adds_its_caller() -> None:
    """Each of ``PASS_ON`` gives ``caller=``, or leaves that to another of them."""
    found = set()
    for source in sources():
        for function in ast.walk(source.tree):
            if source.path.startswith("console/") and isinstance(function, ast.AsyncFunctionDef) and function.name in PASS_ON:
                inner = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
                gives = any("caller" in {keyword.arg for keyword in call.keywords} for call in inner)
                assert gives or any(map(is_passed_on, inner)), f"{source.path}:{function.lineno} {function.name} adds no caller"
                found.add(function.name)
    assert found == PASS_ON


def test_doors_pass_the_caller() -> None:
    """A call without ``caller=`` would act as Loradeck itself, whoever asked."""
    names = mutations()
    assert {("engine", "register"), ("engine", "unregister"), ("engine", "control"), ("cold_warm", "start")} <= names
    report(
        [
            f"{source.path}:{node.lineno} {ast.unparse(node)} without caller="
            for source in sources()
            if source.path.startswith(("engine/api/", "console/"))
            for node, call in calls(source)
            if (owner(node), node.attr) in names and (call is None or "caller" not in {keyword.arg for keyword in call.keywords})
        ]
    )
