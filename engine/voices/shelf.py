"""Where each voice's files lie, and whose it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """One trained demo adapter."""

    alias: str
    tenant: str
    about: str
    """One line for people."""
    folder: Path
    """The PEFT folder."""
    prompts: tuple[str, ...]
    """Questions that show it well, none of which it was trained on."""


@cache
def demo_voices() -> tuple[Voice, ...]:
    """All that are trained, in the order of their names."""
    return tuple(_voice(folder) for folder in sorted(HERE.iterdir()) if (folder / "adapter" / "training.json").exists())


def _voice(folder: Path) -> Voice:
    recipe = json.loads((folder / "adapter" / "training.json").read_text(encoding="utf-8"))["recipe"]
    return Voice(
        alias=recipe["name"],
        tenant=recipe["tenant"],
        about=recipe["about"],
        folder=folder / "adapter",
        prompts=tuple(recipe["prompts"]),
    )
