"""config.json → ModelSpec, or a refusal that names the field. Nothing that could change answers is passed over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.errors import BaseRefused
from engine.models.families import Family, family_of
from engine.models.rope import read_rope
from engine.models.spec import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READ = frozenset({
    "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps",
    "tie_word_embeddings", "attention_bias", "mlp_bias", "rope_theta", "rope_scaling", "rope_parameters",
    "original_max_position_embeddings", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
    "bos_token_id", "eos_token_id",
})  # fmt: skip
"""Fields whose meaning is built here (the token ids: in ``engine.tokenizing``)."""

HARMLESS = frozenset({
    "initializer_range", "use_cache", "torch_dtype", "dtype", "pretraining_tp", "pad_token_id", "unk_token_id",
    "sep_token_id", "decoder_start_token_id", "id2label", "label2id", "num_labels", "problem_type", "is_llama_config",
    "is_decoder", "transformers.js_config", "output_attentions", "output_hidden_states", "return_dict", "torchscript",
    "gradient_checkpointing", "tokenizer_class", "finetuning_task", "task_specific_params", "prefix", "auto_map",
    "chunk_size_feed_forward", "unsloth_fixed", "max_length", "min_length", "do_sample", "temperature", "top_p", "top_k",
    "name_or_path", "use_return_dict", "low_cpu_mem_usage", "max_seq_len", "model_max_length",
})  # fmt: skip
"""Fields of training, export or text generation defaults: the forward pass does not read them."""

HARMLESS_ENDS = ("_version", "_dropout", "dropout")
NEUTRAL: Mapping[str, object] = {
    "hidden_act": "silu",
    "rope_interleaved": False,
    "partial_rotary_factor": 1.0,
    "attention_multiplier": 1.0,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "logits_scaling": 1.0,
    "logit_scale": 1.0,
    "num_nextn_predict_layers": 0,
    "use_mrope": False,
}
"""Fields that change answers, with the one value under which they do not."""


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json. Raises BaseRefused when it is absent or not a JSON object."""
    path = folder / "config.json"
    if not path.is_file():
        raise BaseRefused(f"{folder} has no config.json: it is not a Hugging Face model folder", param="config.json")
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise BaseRefused(f"{path} is not JSON: {error}", param="config.json") from None
    if not isinstance(config, dict):
        raise BaseRefused(f"{path} is not a JSON object", param="config.json")
    return config


def read_spec(folder: Path) -> ModelSpec:
    """The spec of a Hugging Face decoder folder, named after it and without a digest. Raises BaseRefused by field."""
    return parse_spec(read_config(folder), name=folder.resolve().name)


def parse_spec(config: Mapping[str, Any], *, name: str) -> ModelSpec:
    """The spec that a config.json describes. Raises BaseRefused by field."""
    family = family_of(config.get("model_type"), config.get("architectures"))
    _refuse_unknown(config)
    heads = _count(config, "num_attention_heads")
    hidden = _count(config, "hidden_size")
    kv_heads = _count(config, "num_key_value_heads", family.default_kv_heads or heads)
    head_dim = _count(config, "head_dim", family.default_head_dim or hidden // heads)
    if heads % kv_heads or head_dim % 2:
        raise BaseRefused(
            f"{heads} query heads do not divide into {kv_heads} key heads of {head_dim}",
            param="num_key_value_heads" if heads % kv_heads else "head_dim",
        )
    rope, max_position = read_rope(config, _count(config, "max_position_embeddings", family.default_max_position))
    attention_bias = bool(config.get("attention_bias"))
    return ModelSpec(
        name=name,
        family=family.model_type,
        num_layers=_count(config, "num_hidden_layers"),
        hidden_size=hidden,
        mlp_size=_count(config, "intermediate_size"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=_count(config, "vocab_size"),
        max_position=max_position,
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        tied=bool(config.get("tie_word_embeddings")),
        qkv_bias=_bias(family.qkv_bias, attention_bias),
        o_bias=_bias(family.o_bias, attention_bias),
        mlp_bias=family.reads_mlp_bias and bool(config.get("mlp_bias")),
        qk_norm=family.qk_norm,
        windows=_windows(config, family),
        rope=rope,
    )


def _bias(fixed: bool | None, configured: bool) -> bool:  # noqa: FBT001 two answers to one question, not flags
    """The family's word, or config.json's where the family leaves it open."""
    return configured if fixed is None else fixed


def _refuse_unknown(config: Mapping[str, Any]) -> None:
    """Raises BaseRefused at the first field that may change answers and is not built."""
    family = family_of(config.get("model_type"), config.get("architectures"))
    for field, value in config.items():
        if field in NEUTRAL and value is not None and value != NEUTRAL[field]:
            raise BaseRefused(f"{field} = {value!r} is not supported", param=field, expected=NEUTRAL[field], found=value)
        if field == "attention_bias" and value and family.qkv_bias is not None:
            raise BaseRefused(f"{family.model_type} with attention_bias is not supported", param=field, expected=False, found=value)
        if field == "mlp_bias" and value and not family.reads_mlp_bias:
            raise BaseRefused(f"{family.model_type} with mlp_bias is not supported", param=field, expected=False, found=value)
        if field in READ or field in HARMLESS or field in NEUTRAL or field.startswith("_") or field.endswith(HARMLESS_ENDS):
            continue
        if value:
            raise BaseRefused(
                f"config.json sets {field} = {value!r}, which this engine does not know and which could change the answers",
                param=field,
                expected="absent",
                found=value,
            )


def _count(config: Mapping[str, Any], field: str, default: int | None = None) -> int:
    """A positive whole number. Raises BaseRefused when it is missing without a default, or anything else."""
    value = config.get(field)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BaseRefused(f"config.json needs {field} as a positive whole number", param=field, expected="int > 0", found=value)
    return value


def _windows(config: Mapping[str, Any], family: Family) -> tuple[int | None, ...]:
    """One entry a layer, by the family's rule."""
    layers = _count(config, "num_hidden_layers")
    window = config.get("sliding_window", family.default_window)
    if family.windows_by_layer and not config.get("use_sliding_window"):
        window = None
    if window is None or family.default_window is None:
        return (None,) * layers
    window = _count({"sliding_window": window}, "sliding_window")
    if not family.windows_by_layer:
        return (window,) * layers
    first = config.get("max_window_layers", 28)
    kinds = config.get("layer_types") or ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
    if len(kinds) != layers or set(kinds) - {"sliding_attention", "full_attention"}:
        raise BaseRefused("layer_types must name sliding_attention or full_attention for each layer", param="layer_types", found=kinds)
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
