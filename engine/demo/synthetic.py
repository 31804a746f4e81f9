"""Synthetic PEFT adapters: random matrices, strong enough that answers change and weak enough that they stay text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.adapters.synthetic import ATTENTION, Change, write_synthetic
from engine.models.spec import MODULES, ModelSpec

QV = ("q_proj", "v_proj")
MLP = MODULES[4:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a sample changes. ``strength`` is the size of the change over the size of the weights it is added to (Frobenius norms)."""

    label: str
    rank: int
    modules: tuple[str, ...]
    layers: Literal["all", "first half", "last half", "last six"]
    strength: float


SHOWN = (
    Recipe(label="r8-qv", rank=8, modules=QV, layers="all", strength=0.07),
    Recipe(label="r16-all", rank=16, modules=MODULES, layers="all", strength=0.06),
    Recipe(label="r4-mlp", rank=4, modules=MLP, layers="last half", strength=0.15),
    Recipe(label="r32-attn", rank=32, modules=ATTENTION, layers="all", strength=0.06),
    Recipe(label="r8-all", rank=8, modules=MODULES, layers="first half", strength=0.07),
    Recipe(label="r4-qv", rank=4, modules=QV, layers="all", strength=0.07),
    Recipe(label="r32-qv", rank=32, modules=QV, layers="all", strength=0.08),
    Recipe(label="r16-mlp", rank=16, modules=MLP, layers="all", strength=0.07),
)
"""The first eight: ranks 4, 8, 16 and 32 over different modules and layers."""

MANY = (
    Recipe(label="r4-v", rank=4, modules=("v_proj",), layers="last six", strength=0.3),
    Recipe(label="r8-q", rank=8, modules=("q_proj",), layers="last six", strength=0.5),
)
"""The rest, for scale tests: small on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One written adapter."""

    alias: str
    """Tenant-like, such as ``sample/r8-qv-01``; also its path below the output folder."""
    folder: Path


def write_samples(out: Path, spec: ModelSpec, *, count: int, seed: int = 0) -> Iterator[Sample]:
    """Write ``count`` adapters for a base below ``out``, one after the other; the same bytes for the same seed."""
    for index in range(count):
        recipe = SHOWN[index] if index < len(SHOWN) else MANY[index % len(MANY)]
        alias = f"sample/{recipe.label}-{index + 1:02d}"
        folder = out / alias
        layers = _layers(recipe, spec.num_layers)
        change = Change(rank=recipe.rank, modules=recipe.modules, layers=layers, strength=recipe.strength)
        record: dict[str, object] = {"made_by": "python -m engine.demo", "seed": seed, "index": index}
        write_synthetic(folder, spec, change, seed=seed * 1_000_003 + index, record=record)
        (folder / "README.md").write_text(_card(recipe, alias, spec), encoding="utf-8")
        yield Sample(alias=alias, folder=folder)


def _layers(recipe: Recipe, num_layers: int) -> range:
    half = num_layers // 2
    return {
        "all": range(num_layers),
        "first half": range(max(half, 1)),
        "last half": range(half, num_layers),
        "last six": range(max(num_layers - 6, 0), num_layers),
    }[recipe.layers]


def _card(recipe: Recipe, alias: str, spec: ModelSpec) -> str:
    """What a person finds in the folder."""
    return (
        f"# {alias}\n\nSynthetic: random matrices, not trained on anything. It shows that another adapter answers differently, no more.\n\n"
        f"LoRA for {spec.name}, rank {recipe.rank}, on {', '.join(recipe.modules)}, layers: {recipe.layers}.\n"
    )
