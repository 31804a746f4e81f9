"""TINY bases and healthy adapters, written as folders: the bench that every test builds from.

Weights are drawn with std 0.2 and adapters with std 0.3: weaker ones leave greedy text unchanged and hide a dropped adapter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.tiny_tokenizer import EOS, IM_END, PAD, tokenizer_config, tokenizer_json

Array = NDArray[np.float32]
Tensors = dict[str, Array]

BASE_STD = 0.2
ADAPTER_STD = 0.3
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
BLOCKS = dict.fromkeys(MODULES[:4], "self_attn") | dict.fromkeys(MODULES[4:], "mlp")


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyShape:
    """Sizes and family of a random base; the defaults are TINY."""

    family: Literal["llama", "mistral", "qwen2", "qwen3"] = "llama"
    hidden: int = 64
    mlp: int = 96
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    vocab: int = 320
    context: int = 256
    tied: bool = False
    seed: int = 1
    config: Mapping[str, object] = field(default_factory=dict)
    """More fields of config.json, such as ``rope_scaling``; they win."""

    def module_dims(self, module: str) -> tuple[int, int]:
        """(in, out) features of one projection."""
        q_rows, kv_rows = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, q_rows),
            "k_proj": (self.hidden, kv_rows),
            "v_proj": (self.hidden, kv_rows),
            "o_proj": (q_rows, self.hidden),
            "gate_proj": (self.hidden, self.mlp),
            "up_proj": (self.hidden, self.mlp),
            "down_proj": (self.mlp, self.hidden),
        }[module]


TINY = TinyShape()
TINY_T = TinyShape(tied=True)
TINY_B = TinyShape(family="qwen2")
TINY_Q3 = TinyShape(family="qwen3")
TINY_2 = TinyShape(seed=2)
TINY_M = TinyShape(family="mistral", config={"sliding_window": 12})


def write_base(folder: Path, shape: TinyShape = TINY) -> Path:
    """A Hugging Face folder of a random base, fp32; the same bytes for the same shape. Returns ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(base_tensors(shape), folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", base_config(shape))
    write_json(folder / "generation_config.json", {"eos_token_id": [EOS, IM_END], "pad_token_id": PAD})
    write_json(folder / "tokenizer.json", tokenizer_json(shape.vocab))
    write_json(folder / "tokenizer_config.json", tokenizer_config(shape.context))
    return folder


def base_tensors(shape: TinyShape) -> Tensors:
    """All weights by their Hugging Face names; norms lie around one so that a swapped norm shows."""
    rng = np.random.default_rng(shape.seed)
    tensors = {"model.embed_tokens.weight": draw(rng, shape.vocab, shape.hidden)}
    for layer in range(shape.layers):
        tensors |= layer_tensors(rng, shape, f"model.layers.{layer}.")
    tensors["model.norm.weight"] = norm(rng, shape.hidden)
    if not shape.tied:
        tensors["lm_head.weight"] = draw(rng, shape.vocab, shape.hidden)
    return tensors


def layer_tensors(rng: np.random.Generator, shape: TinyShape, prefix: str) -> Tensors:
    """One layer; qwen2 has biases on q, k, v and qwen3 has norms on q, k."""
    tensors: Tensors = {}
    for module in MODULES:
        inputs, outputs = shape.module_dims(module)
        tensors[f"{prefix}{BLOCKS[module]}.{module}.weight"] = draw(rng, outputs, inputs)
        if shape.family == "qwen2" and module in {"q_proj", "k_proj", "v_proj"}:
            tensors[f"{prefix}self_attn.{module}.bias"] = draw(rng, outputs)
    if shape.family == "qwen3":
        tensors[f"{prefix}self_attn.q_norm.weight"] = norm(rng, shape.head_dim)
        tensors[f"{prefix}self_attn.k_norm.weight"] = norm(rng, shape.head_dim)
    tensors[f"{prefix}input_layernorm.weight"] = norm(rng, shape.hidden)
    tensors[f"{prefix}post_attention_layernorm.weight"] = norm(rng, shape.hidden)
    return tensors


def base_config(shape: TinyShape) -> dict[str, object]:
    """The config.json of the family, in the spelling that published folders use."""
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[shape.family]
    config: dict[str, object] = {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": shape.family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "initializer_range": BASE_STD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "torch_dtype": "float32",
    }
    if shape.family == "llama":
        config |= {"attention_bias": False, "mlp_bias": False}
    return config | dict(shape.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRecipe:
    """What an adapter folder holds; the defaults are AD, rank 8 on q and v of every layer."""

    seed: int = 11
    rank: int = 8
    alpha: float = 16
    modules: Sequence[str] = ("q_proj", "v_proj")
    layers: Sequence[int] | None = None
    std: float = ADAPTER_STD
    rslora: bool = False
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    """Rank by ``layers.0.self_attn.q_proj`` or any suffix of a module's full name; first match wins."""
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    """More fields of adapter_config.json; they win."""
    base_name: str = "tiny"
    spell: Callable[[str], str] = str
    """Rewrites each tensor key on its way to the file."""


def write_adapter(folder: Path, recipe: AdapterRecipe | None = None, shape: TinyShape = TINY) -> Path:
    """A PEFT folder: adapter_config.json and adapter_model.safetensors, fp32. Returns ``folder``."""
    recipe = recipe or AdapterRecipe()
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {recipe.spell(key): tensor for key, tensor in adapter_tensors(recipe, shape).items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    write_json(folder / "adapter_config.json", adapter_config(recipe))
    return folder


def adapter_tensors(recipe: AdapterRecipe, shape: TinyShape = TINY) -> Tensors:
    """A [rank, in] and B [out, rank] of each module, under PEFT's plain keys."""
    rng = np.random.default_rng(recipe.seed)
    tensors: Tensors = {}
    for layer in range(shape.layers) if recipe.layers is None else recipe.layers:
        for module in recipe.modules:
            name = f"model.layers.{layer}.{BLOCKS[module]}.{module}"
            rank = next((rank for end, rank in recipe.rank_pattern.items() if name.endswith(end)), recipe.rank)
            inputs, outputs = shape.module_dims(module)
            tensors[f"base_model.model.{name}.lora_A.weight"] = draw(rng, rank, inputs, std=recipe.std)
            tensors[f"base_model.model.{name}.lora_B.weight"] = draw(rng, outputs, rank, std=recipe.std)
    return tensors


def adapter_config(recipe: AdapterRecipe) -> dict[str, object]:
    """The adapter_config.json that PEFT would save for the recipe."""
    config: dict[str, object] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": recipe.base_name,
        "r": recipe.rank,
        "lora_alpha": recipe.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(recipe.modules),
        "layers_to_transform": None if recipe.layers is None else list(recipe.layers),
        "use_rslora": recipe.rslora,
        "rank_pattern": dict(recipe.rank_pattern),
        "alpha_pattern": dict(recipe.alpha_pattern),
        "modules_to_save": None,
        "bias": "none",
        "fan_in_fan_out": False,
        "use_dora": False,
        "inference_mode": True,
    }
    return config | dict(recipe.config)


def draw(rng: np.random.Generator, *size: int, std: float = BASE_STD) -> Array:
    """Normal fp32 values."""
    return rng.standard_normal(size, dtype=np.float32) * np.float32(std)


def norm(rng: np.random.Generator, size: int) -> Array:
    """A norm's weight, around one."""
    return 1 + draw(rng, size, std=0.1)


def write_json(path: Path, value: object) -> None:
    """Indented JSON with a newline at its end."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
