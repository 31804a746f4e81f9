"""What each supported architecture fixes and what it assumes when config.json is silent; the defaults are transformers' own."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import BaseRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture. ``None`` for a bias: config.json's ``attention_bias`` decides."""

    model_type: str
    architecture: str
    default_max_position: int
    default_kv_heads: int | None
    """None: as many as query heads."""
    default_head_dim: int | None = None
    """None: hidden size over heads."""
    qkv_bias: bool | None = False
    o_bias: bool | None = False
    reads_mlp_bias: bool = False
    qk_norm: bool = False
    default_window: int | None = None
    windows_by_layer: bool = False
    """Whether ``use_sliding_window``, ``max_window_layers`` and ``layer_types`` choose the layers with a window."""


FAMILIES = (
    # SmolLM and SmolLM2 publish themselves as Llama.
    Family(
        model_type="llama",
        architecture="LlamaForCausalLM",
        default_max_position=2048,
        default_kv_heads=None,
        qkv_bias=None,
        o_bias=None,
        reads_mlp_bias=True,
    ),
    Family(
        model_type="mistral",
        architecture="MistralForCausalLM",
        default_max_position=131072,
        default_kv_heads=8,
        default_window=4096,
    ),
    Family(
        model_type="qwen2",
        architecture="Qwen2ForCausalLM",
        default_max_position=32768,
        default_kv_heads=32,
        qkv_bias=True,
        default_window=4096,
        windows_by_layer=True,
    ),
    Family(
        model_type="qwen3",
        architecture="Qwen3ForCausalLM",
        default_max_position=32768,
        default_kv_heads=32,
        default_head_dim=128,
        qkv_bias=None,
        o_bias=None,
        qk_norm=True,
        default_window=4096,
        windows_by_layer=True,
    ),
)


def family_of(model_type: object, architectures: object) -> Family:
    """The family that both fields name. Raises BaseRefused with the name at fault."""
    supported = ", ".join(family.architecture for family in FAMILIES)
    by_type = next((family for family in FAMILIES if family.model_type == model_type), None)
    if by_type is None:
        raise BaseRefused(
            f"model_type {model_type!r} is not supported; this engine serves {supported}",
            code="base_architecture",
            param="model_type",
            expected=[family.model_type for family in FAMILIES],
            found=model_type,
        )
    if architectures and architectures != [by_type.architecture]:
        raise BaseRefused(
            f"architectures {architectures!r} is not supported; this engine serves {supported}",
            code="base_architecture",
            param="architectures",
            expected=[by_type.architecture],
            found=architectures,
        )
    return by_type
