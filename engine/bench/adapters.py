"""The bench's adapters: synthetic PEFT folders whose effect is small, written once and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.adapters.folder import CONFIG
from engine.adapters.synthetic import Change, write_synthetic
from engine.models.spec import MODULES, ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

Mix = Literal["heavy", "light", "small"]
STRENGTH = 0.1
QV = ("q_proj", "v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What an adapter changes."""

    rank: int
    modules: tuple[str, ...]
    layers: Literal["all", "last"] = "all"


MIXES: dict[Mix, tuple[Recipe, ...]] = {
    "heavy": (
        Recipe(rank=8, modules=QV),
        Recipe(rank=16, modules=MODULES),
        Recipe(rank=32, modules=QV),
        Recipe(rank=64, modules=MODULES),
    ),
    "light": (Recipe(rank=8, modules=QV),),
    "small": (Recipe(rank=4, modules=("v_proj",), layers="last"),),
}
"""Row i of a mix has recipe i modulo their number; ``small`` is for being registered, one page each."""
MAX_RANK = max(recipe.rank for recipes in MIXES.values() for recipe in recipes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One written adapter."""

    alias: str
    folder: Path


def write_mix(root: Path, spec: ModelSpec, mix: Mix, count: int) -> tuple[Source, ...]:
    """``count`` distinct adapters of a mix for a base's shape below ``root``; what is there already is kept."""
    shape = f"l{spec.num_layers}-h{spec.hidden_size}-m{spec.mlp_size}-q{spec.q_size}-kv{spec.kv_size}"
    recipes = MIXES[mix]
    sources = []
    for index in range(count):
        source = Source(alias=f"bench/{mix}-{index:04d}", folder=root / shape / mix / f"{index:04d}")
        if not (source.folder / CONFIG).exists():
            _write(source.folder, spec, recipes[index % len(recipes)], seed=10_000 * list(MIXES).index(mix) + index)
        sources.append(source)
    return tuple(sources)


def _write(folder: Path, spec: ModelSpec, recipe: Recipe, *, seed: int) -> None:
    layers = range(0 if recipe.layers == "all" else spec.num_layers - 1, spec.num_layers)
    record: dict[str, object] = {"made_by": "python -m engine.bench", "seed": seed}
    change = Change(rank=recipe.rank, modules=recipe.modules, layers=layers, strength=STRENGTH)
    write_synthetic(folder, spec, change, seed=seed, record=record)
