"""The bench's adapters: synthetic PEFT folders whose effect is small, written once and kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from safetensors.torch import save_file

from engine.models.spec import MODULES, ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

Mix = Literal["heavy", "light", "small"]
STRENGTH = 0.1
"""Size of the change over the size of the weights it is added to (Frobenius norms)."""
WEIGHT_STD = 0.2
"""Spread of the demo base's projections."""
QV = ("q_proj", "v_proj")
ATTENTION = MODULES[:4]
CONFIG = "adapter_config.json"


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
    """The config comes last: it marks a folder that is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    save_file(_tensors(recipe, spec, generator), folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "training.json").write_text(json.dumps({"synthetic": True, "made_by": "python -m engine.bench", "seed": seed}))
    (folder / CONFIG).write_text(json.dumps(_config(recipe, spec), indent=1))


def _tensors(recipe: Recipe, spec: ModelSpec, generator: torch.Generator) -> dict[str, Tensor]:
    """A with unit rows and B sized so that B A has ``STRENGTH``; the config's scale is one. bfloat16, as trainers save."""
    tensors: dict[str, Tensor] = {}
    for layer in _layers(recipe, spec):
        for module in recipe.modules:
            inputs, outputs = spec.module_dims[module]
            name = f"base_model.model.model.layers.{layer}.{'self_attn' if module in ATTENTION else 'mlp'}.{module}"
            b_std = STRENGTH * WEIGHT_STD * (inputs / recipe.rank) ** 0.5
            a = torch.randn(recipe.rank, inputs, generator=generator) / inputs**0.5
            b = torch.randn(outputs, recipe.rank, generator=generator) * b_std
            tensors |= {f"{name}.lora_A.weight": a.bfloat16(), f"{name}.lora_B.weight": b.bfloat16()}
    return tensors


def _config(recipe: Recipe, spec: ModelSpec) -> dict[str, object]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": spec.name,
        "r": recipe.rank,
        "lora_alpha": recipe.rank,
        "lora_dropout": 0.0,
        "target_modules": list(recipe.modules),
        "layers_to_transform": None if recipe.layers == "all" else list(_layers(recipe, spec)),
        "bias": "none",
        "inference_mode": True,
    }


def _layers(recipe: Recipe, spec: ModelSpec) -> range:
    return range(0 if recipe.layers == "all" else spec.num_layers - 1, spec.num_layers)
