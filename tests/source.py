"""The product's files, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("console", "engine", "kernels")


@dataclass(frozen=True)
class Source:
    """One Python file, parsed."""

    path: str
    """Relative to the root, with slashes."""

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """Dotted name; a package has its own name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def imports(self) -> Iterator[tuple[str, int]]:
        """(dotted name, line) of every import, those for the type checker and inside functions included."""
        return chain.from_iterable(map(imported, ast.walk(self.tree)))

    @property
    def run_time_imports(self) -> Iterator[tuple[str, int]]:
        """Imports that happen: without those for the type checker."""
        for_types = {id(child) for node in ast.walk(self.tree) if is_type_checking(node) for child in ast.walk(node)}
        return chain.from_iterable(imported(node) for node in ast.walk(self.tree) if id(node) not in for_types)


def imported(node: ast.AST) -> Iterator[tuple[str, int]]:
    """``from engine.ids import X`` gives ``engine.ids.X``: the module is a prefix of it."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield from ((f"{'.' * node.level}{node.module or ''}.{alias.name}", node.lineno) for alias in node.names)


def is_type_checking(node: ast.AST) -> bool:
    """Whether it is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


@cache
def sources() -> tuple[Source, ...]:
    """The product: run.py and the three packages."""
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return tuple(Source(path.relative_to(ROOT).as_posix()) for path in (ROOT / "run.py", *sorted(found)))


@cache
def suite() -> tuple[Source, ...]:
    """The tests and their bench."""
    return tuple(Source(path.relative_to(ROOT).as_posix()) for path in sorted((ROOT / "tests").rglob("*.py")))
