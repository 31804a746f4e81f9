"""Whoever changes something says who asked: every call of a mutation in the doors passes the caller that was proven."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.test_architecture import Source, report, sources


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


def calls(source: Source) -> Iterator[tuple[ast.Attribute, ast.Call | None]]:
    """Each mention of an engine method with the call it is made in, as its function or as an argument (``partial(engine.x, …)``)."""
    made = {}
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call):
            made |= {id(part): call for part in (call.func, *call.args)}
    yield from ((node, made.get(id(node))) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute))


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
