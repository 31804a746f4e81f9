"""A synthetic PEFT folder: random matrices of a chosen strength, trained on nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from engine.adapters.folder import CONFIG, TRAINING, WEIGHTS
from engine.models.spec import MODULES

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from engine.models.spec import ModelSpec

WEIGHT_STD = 0.2
"""Spread of the demo base's projections, which the changes are measured against."""
ATTENTION = MODULES[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a synthetic adapter changes."""

    rank: int
    modules: tuple[str, ...]
    layers: range
    strength: float
    """Size of the change over the size of the weights it is added to (Frobenius norms)."""


def write_synthetic(folder: Path, spec: ModelSpec, change: Change, *, seed: int, record: dict[str, object]) -> None:
    """Write an adapter for a base's shape; the same bytes for the same seed. The config comes last: it marks a folder that is whole.

    ``record`` goes into its training record, which says that it is synthetic.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_tensors(change, spec, torch.Generator().manual_seed(seed)), folder / WEIGHTS, metadata={"format": "pt"})
    _write_json(folder / TRAINING, {"synthetic": True, **record})
    _write_json(folder / CONFIG, _config(change, spec))


def _tensors(change: Change, spec: ModelSpec, generator: torch.Generator) -> dict[str, Tensor]:
    """A with unit rows and B sized so that B A has the strength; the config's scale is one. bfloat16, as trainers save."""
    tensors: dict[str, Tensor] = {}
    for layer in change.layers:
        for module in change.modules:
            inputs, outputs = spec.module_dims[module]
            name = f"base_model.model.model.layers.{layer}.{'self_attn' if module in ATTENTION else 'mlp'}.{module}"
            b_std = change.strength * WEIGHT_STD * (inputs / change.rank) ** 0.5
            a = torch.randn(change.rank, inputs, generator=generator) / inputs**0.5
            b = torch.randn(outputs, change.rank, generator=generator) * b_std
            tensors |= {f"{name}.lora_A.weight": a.bfloat16(), f"{name}.lora_B.weight": b.bfloat16()}
    return tensors


def _config(change: Change, spec: ModelSpec) -> dict[str, object]:
    """What PEFT would save."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": spec.name,
        "r": change.rank,
        "lora_alpha": change.rank,
        "lora_dropout": 0.0,
        "target_modules": list(change.modules),
        "layers_to_transform": None if change.layers == range(spec.num_layers) else list(change.layers),
        "use_rslora": False,
        "use_dora": False,
        "bias": "none",
        "fan_in_fan_out": False,
        "modules_to_save": None,
        "inference_mode": True,
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
