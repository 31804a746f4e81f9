"""The shape of the code: who may import whom, how long things may be, and what may not be written."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache

import pytest

from tests.source import PACKAGES, ROOT, Source, sources, suite

# -- who may import whom --

LEAVES = {
    "accounts",
    "operation",
    "alias",
    "allowance",
    "audit_record",
    "batch",
    "caller",
    "clock",
    "desired",
    "errors",
    "events",
    "fairness_view",
    "full_disk",
    "holding",
    "ids",
    "plan",
    "report",
    "request",
    "sequence",
    "settings",
    "snapshot",
    "step_record",
    "version",
}
PARTS: dict[str, set[str]] = {
    # part: the other parts it may import
    "memory": set(),
    "telemetry": set(),
    "tokenizing": set(),
    "registry": set(),
    "pricing": set(),
    "gateway": set(),
    "voices": set(),
    "models": set(),
    "weights": {"models"},
    "cache": {"memory"},
    "adapters": {"memory", "models", "weights"},
    "scheduler": {"memory", "cache"},
    "runner": {"adapters", "cache", "memory", "models"},
}
WHOLE = {
    "assemble",
    "batch_rows",
    "bill",
    "budget",
    "control",
    "data_lock",
    "engine",
    "health",
    "held",
    "intake",
    "lanes",
    "leaving",
    "lifecycle",
    "live",
    "loop",
    "model_host",
    "names",
    "observer",
    "output",
    "placement",
    "process",
    "prover",
    "registered",
    "readings",
    "registration",
    "requests",
    "router",
    "stream",
    "submission",
    "tenants",
    "versions",
    "watchdog",
}
DOORS = {"admin", "api", "training", "bench", "demo", "deploy"}
MEASURES = {"bench": {"api"}}
"""Which door another door measures, and so must import."""

NO_TORCH = ("engine/scheduler/", "engine/cache/prefix.py", "engine/memory/pages.py")
THIRD_PARTY_OF_KERNELS = {"torch", "triton", "numba", "llvmlite", "numpy"}

FILE_LINES, KERNEL_FILE_LINES, TEST_FILE_LINES, FUNCTION_LINES, COMPILED_LINES = 250, 350, 400, 40, 120

# Longer than the cap, with the length it has now and the reason. It may only shrink: an entry that is not needed fails.
LONGER: dict[str, tuple[int, str]] = {
    "engine/snapshot.py": (268, "one frozen dataclass per table of the console; splitting them hides what a snapshot is"),
}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc"}

# The last line of a thread, where an error of ours must be reported and not lost, or a library without error classes:
# file::function and the reason.
MAY_CATCH_ALL: dict[str, str] = {
    "engine/loop.py::_turn": "the engine thread's last line: a fault ends the requests it hit, never the thread",
    "engine/loop.py::_obey": "likewise for a command",
    "engine/adapters/loader.py::_do": "a loader thread's last line: a fault fails its load, never the thread",
    "engine/lanes/cold_warm.py::_work": "the comparison thread's last line: a fault ends the comparison, which says so",
    "engine/registry/store.py::_run": "hands a bug of ours to the threads that wait, which else would wait for ever",
    "engine/registry/change.py::tell": "hands a fault in what memory does after a commit to the thread that waits",
    "engine/registry/store.py::_do": "hands what a change raised to the thread that waits for it",
    "engine/intake/worker.py::_run": "the intake thread's last line: a fault ends the operation, which says so, never the thread",
    "engine/loop.py::run": "hands what a command raised to the thread that waits for it",
    "engine/tokenizing/tokenizer.py::load": "tokenizers raises plain Exception for a file that it cannot read",
}


def under(package: str) -> list[Source]:
    """The files of one package."""
    return [source for source in sources() if source.path.startswith(f"{package}/")]


def report(faults: list[str]) -> None:
    """Fails with one fault a line."""
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


def top_of(name: str) -> str:
    """``torch.nn`` → ``torch``."""
    return name.split(".", 1)[0]


def inside_engine(name: str) -> str:
    """``engine.adapters.pack.Pack`` → ``adapters``."""
    return name.split(".")[1]


def test_imports_run_one_way() -> None:
    """run → console → engine → kernels, and nothing imports the tests."""
    allowed = {"run": {"console", "engine"}, "console": {"console", "engine"}, "engine": {"engine", "kernels"}, "kernels": {"kernels"}}
    ours = {"run", "tests", *PACKAGES}
    report(
        [
            f"{source.path}:{line} imports {name}"
            for source in sources()
            for name, line in source.imports
            if top_of(name) in ours - allowed[top_of(source.module)]
        ]
    )


def test_imports_are_absolute() -> None:
    """A file says whose noun it uses: no relative imports."""
    report([f"{s.path}:{line} imports {name}" for s in sources() for name, line in s.imports if name.startswith(".")])


def test_console_knows_the_public_door_only() -> None:
    """``from engine import X``: a name of the door, never a module behind it."""
    behind = LEAVES | set(PARTS) | WHOLE | DOORS
    report(
        [
            f"{source.path}:{line} imports {name}: use `from engine import …`"
            for source in under("console")
            for name, line in source.imports
            if top_of(name) == "engine" and (name.count(".") > 1 or name.removeprefix("engine.") in behind)
        ]
    )


def test_engine_never_imports_its_own_door() -> None:
    """Inside engine/, ``from engine.errors import …``: the other way is a cycle."""
    report(
        [
            f"{source.path}:{line} imports {name}"
            for source in under("engine")
            if source.path != "engine/__init__.py"
            for name, line in source.imports
            if name == "engine" or (top_of(name) == "engine" and name.count(".") == 1)
        ]
    )


def test_every_part_is_placed() -> None:
    """What lies in engine/ is a leaf, a part, of the whole, or a door."""
    known = LEAVES | set(PARTS) | WHOLE | DOORS
    places = {inside_engine(source.module) for source in under("engine") if source.path != "engine/__init__.py"}
    report([f"engine/{name} is in no table" for name in sorted(places - known)])


def may_import(place: str) -> set[str]:
    """What a leaf, part, whole or door may import inside engine/."""
    if place in LEAVES:
        return LEAVES
    if place in PARTS:
        return LEAVES | {place} | PARTS[place]
    if place in WHOLE:
        return LEAVES | set(PARTS) | WHOLE
    return LEAVES | set(PARTS) | WHOLE | {place} | MEASURES.get(place, set())


def test_leaf_part_whole_door() -> None:
    """Leaves import one another, parts know leaves and the parts listed, the whole knows parts, none a door but to measure it."""
    report(
        [
            f"{source.path}:{line} imports {name}"
            for source in under("engine")
            if source.path != "engine/__init__.py"
            for name, line in source.imports
            if top_of(name) == "engine" and name.count(".") > 1 and inside_engine(name) not in may_import(inside_engine(source.module))
        ]
    )


def test_only_run_imports_a_door() -> None:
    """The engine's public face leads to no door either."""
    door = next(source for source in under("engine") if source.path == "engine/__init__.py")
    report([f"{door.path}:{line} imports {name}" for name, line in door.imports if name.startswith(tuple(f"engine.{d}." for d in DOORS))])


def third_party(name: str) -> bool:
    """Whether it is neither ours nor the standard library's."""
    return top_of(name) not in sys.stdlib_module_names | {"run", "tests", *PACKAGES} and not name.startswith(".")


def test_kernels_stand_on_torch_alone() -> None:
    """kernels/ holds pure tensor functions: torch, triton, numba with its compiler, numpy for addresses."""
    report(
        [
            f"{source.path}:{line} imports {name}"
            for source in under("kernels")
            for name, line in source.imports
            if third_party(name) and top_of(name) not in THIRD_PARTY_OF_KERNELS
        ]
    )


def test_only_the_console_knows_nicegui() -> None:
    """The engine serves without a UI installed."""
    others = [source for source in sources() if not source.path.startswith("console/")]
    report([f"{source.path}:{line}" for source in others for name, line in source.imports if top_of(name) == "nicegui"])


@cache
def reached(module: str) -> frozenset[str]:
    """Names that importing a module of ours brings in, at any depth; packages' ``__init__`` are not followed."""
    by_module = {source.module: source for source in sources()}
    seen: set[str] = set()
    names: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if current in seen or current not in by_module:
            continue
        seen.add(current)
        found = {name for name, _ in by_module[current].run_time_imports}
        names |= found
        waiting += [*found, *(name.rpartition(".")[0] for name in found)]
    return frozenset(names)


def test_planning_needs_no_torch() -> None:
    """What decides (scheduler, prefix index, page pool) and what shows runs without torch, through whatever it imports."""
    planners = [source for source in sources() if source.path.startswith(NO_TORCH)]
    report([f"{source.path} brings in torch" for source in planners if "torch" in map(top_of, reached(source.module))])


def test_every_import_is_declared() -> None:
    """What the product imports is named in pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = {re.split(r"[^\w-]", need)[0] for need in tomllib.load(file)["project"]["dependencies"]}
    modules = {"argon2": "argon2-cffi", "pynvml": "nvidia-ml-py", "starlette": "fastapi", "pydantic_core": "pydantic", "yaml": "pyyaml"}
    report(
        sorted(
            {
                f"{source.path} imports {top_of(name)}"
                for source in sources()
                for name, _ in source.imports
                if third_party(name) and modules.get(top_of(name), top_of(name).replace("_", "-")) not in declared
            }
        )
    )


# -- how long --


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a compiled body: decorated with ``triton.jit`` or ``CpuLoop``."""
    return any(word in ast.unparse(decorator) for word in ("jit", "CpuLoop") for decorator in function.decorator_list)


def functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with ``file::name``; those inside another count for themselves and for it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{source.path}::{node.name}", node


def lengths() -> Iterator[tuple[str, int, int]]:
    """(file or file::function, lines, cap)."""
    for source in (*sources(), *suite()):
        caps = {"kernels": KERNEL_FILE_LINES, "tests": TEST_FILE_LINES}
        yield source.path, source.text.count("\n"), caps.get(source.path.split("/", 1)[0], FILE_LINES)
    for source in sources():
        for name, node in functions(source):
            yield name, (node.end_lineno or 0) - node.lineno + 1, COMPILED_LINES if is_compiled(node) else FUNCTION_LINES


def test_nothing_is_too_long() -> None:
    """Files 250 lines (kernels 350), functions 40 (compiled bodies 120), but for the list above at the length it names."""
    report([f"{name} has {lines} lines, {cap} allowed" for name, lines, cap in lengths() if lines > max(cap, LONGER.get(name, (0, ""))[0])])


def test_exceptions_only_shrink() -> None:
    """An entry of the list above that is no longer needed, or that names more than there is, goes or shrinks."""
    over = {name: lines for name, lines, cap in lengths() if lines > cap}
    stale = [name for name, (listed, _) in LONGER.items() if over.get(name) != listed]
    report([f"{name}: listed at {LONGER[name][0]} lines, now {over.get(name, 'within the cap')}" for name in stale])


# -- what may not be written --


def test_names_say_what_is_inside() -> None:
    """No drawer for everything: a file is named after its one concept."""
    report([source.path for source in (*sources(), *suite()) if FORBIDDEN_NAMES & set(source.module.split("."))])


def catches_all(node: ast.AST) -> bool:
    """Whether it is ``except:``, ``except Exception`` or ``except BaseException`` and does not end by raising it again."""
    if not isinstance(node, ast.ExceptHandler) or (isinstance(last := node.body[-1], ast.Raise) and last.exc is None):
        return False
    return node.type is None or any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in ast.walk(node.type))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What lies in a function or file, without the functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from own_nodes(child)


def test_errors_are_named() -> None:
    """``except Exception`` stands in the last line of a thread, as listed, and nowhere else."""
    places = [(source.path, source.tree) for source in sources()] + [place for source in sources() for place in functions(source)]
    found = {name for name, node in places if any(map(catches_all, own_nodes(node)))}
    report(
        [f"{name} catches everything" for name in sorted(found - set(MAY_CATCH_ALL))]
        + [f"{name} is listed and catches nothing" for name in sorted(set(MAY_CATCH_ALL) - found)]
    )


def test_comparisons_are_asserted() -> None:
    """A bare ``torch.allclose(...)`` compares and tells nobody."""
    silent = {"allclose", "isclose", "equal", "array_equal"}
    report(
        [
            f"{source.path}:{node.lineno}"
            for source in (*sources(), *suite())
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func).rpartition(".")[2] in silent
        ]
    )


def test_promises_carry_a_link() -> None:
    """A comment that puts something off says where it is kept."""
    put_off = re.compile(r"^.*#\s*(TODO|FIXME|XXX|HACK)\b(?!.*https?://)", re.MULTILINE)
    report([f"{source.path}: {found[0].strip()}" for source in (*sources(), *suite()) for found in put_off.finditer(source.text)])


def test_colours_live_in_css() -> None:
    """console/ names a colour by its token; static/tokens.css has the value."""
    colour = re.compile(r"#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})\b")
    report(
        [
            f"{source.path}:{node.lineno} {node.value!r}"
            for source in under("console")
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and colour.search(node.value)
        ]
    )
