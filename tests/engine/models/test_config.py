from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import BaseRefused
from engine.models.config import parse_spec, read_spec
from engine.models.spec import ModelSpec
from tests.tiny import TINY, TINY_B, TINY_M, TinyShape, base_config, write_base


def spec_of(shape: TinyShape = TINY, **fields: object) -> ModelSpec:
    """The spec of a TINY config with some fields changed."""
    return parse_spec(base_config(shape) | fields, name="tiny")


@pytest.mark.parametrize(
    ("shape", "fields", "param"),
    [
        (TINY, {"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        (TINY, {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}, "model_type"),
        (TINY, {"architectures": ["MistralForCausalLM"]}, "architectures"),
        (TINY, {"model_type": None}, "model_type"),
        (TINY, {"hidden_act": "gelu"}, "hidden_act"),
        (TINY, {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        (TINY, {"rope_interleaved": True}, "rope_interleaved"),
        (TINY, {"quantization_config": {"bits": 4}}, "quantization_config"),
        (TINY, {"no_rope_layers": [1, 1, 1, 0]}, "no_rope_layers"),
        (TINY, {"some_new_switch": True}, "some_new_switch"),
        (TINY, {"hidden_size": None}, "hidden_size"),
        (TINY, {"num_hidden_layers": "2"}, "num_hidden_layers"),
        (TINY, {"vocab_size": True}, "vocab_size"),
        (TINY, {"num_key_value_heads": 3}, "num_key_value_heads"),
        (TINY, {"head_dim": 15}, "head_dim"),
        (TINY_M, {"attention_bias": True}, "attention_bias"),
        (TINY_B, {"mlp_bias": True}, "mlp_bias"),
        (TINY_M, {"sliding_window": -1}, "sliding_window"),
        (TINY_B, {"use_sliding_window": True, "layer_types": ["sliding_attention"]}, "layer_types"),
        (TINY_B, {"use_sliding_window": True, "layer_types": ["sliding_attention", "chunked_attention"]}, "layer_types"),
        (TINY, {"rope_scaling": {"rope_type": "longrope"}}, "rope_scaling.rope_type"),
        (TINY, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling.rope_type"),
        (TINY, {"rope_scaling": {"rope_type": "linear"}}, "rope_scaling.factor"),
        (TINY, {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "rope_scaling.factor"),
        (TINY, {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "long_factor": [1.0]}}, "rope_scaling.long_factor"),
        (TINY, {"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "rope_scaling.partial_rotary_factor"),
        (TINY, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling.low_freq_factor"),
        (TINY, {"rope_scaling": "linear"}, "rope_scaling"),
    ],
)
def test_refuses_by_name(shape: TinyShape, fields: dict[str, object], param: str) -> None:
    """What is not built, or could change answers unseen, is refused with the field at fault."""
    with pytest.raises(BaseRefused) as refusal:
        spec_of(shape, **fields)
    assert refusal.value.param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"attention_dropout": 0.1, "transformers_version": "4.57.0", "_name_or_path": "x/y", "use_cache": True},
        {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"dtype": "q4"}},
        {"quantization_config": None, "some_new_switch": False, "some_list": []},
        {"partial_rotary_factor": 1.0, "pretraining_tp": 1},
    ],
)
def test_accepts_what_changes_nothing(fields: dict[str, object]) -> None:
    """Fields of training and export, and unknown ones that are off, leave the spec as it is."""
    assert spec_of(**fields) == spec_of()


def test_defaults_are_the_family_s() -> None:
    """Silent fields mean what transformers takes them for."""
    config = base_config(TINY)
    for field in ("num_key_value_heads", "head_dim", "max_position_embeddings", "rope_theta"):
        del config[field]
    spec = parse_spec(config, name="tiny")
    assert (spec.num_kv_heads, spec.head_dim, spec.max_position, spec.rope.theta) == (4, 16, 2048, 10000.0)


@pytest.mark.parametrize(
    ("scaling", "max_position"),
    [
        (None, 256),
        ({"rope_type": "default"}, 256),
        ({"rope_type": "linear", "factor": 2.0}, 512),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}, 1024),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, 256),
        (
            {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            256,
        ),
    ],
)
def test_longest_sequence(scaling: dict[str, object] | None, max_position: int) -> None:
    """Linear and YaRN stretch the length; Llama 3's config states the stretched one."""
    assert spec_of(rope_scaling=scaling).max_position == max_position


def test_windows_by_layer() -> None:
    """Mistral's window is everywhere; Qwen's where ``max_window_layers`` or ``layer_types`` say, and only when switched on."""
    assert spec_of(TINY_M).windows == (12, 12)
    assert spec_of(TINY_B, sliding_window=9).windows == (None, None)
    assert spec_of(TINY_B, sliding_window=9, use_sliding_window=True, max_window_layers=1).windows == (None, 9)
    kinds = ["sliding_attention", "full_attention"]
    assert spec_of(TINY_B, sliding_window=9, use_sliding_window=True, layer_types=kinds).windows == (9, None)
    assert spec_of(TINY, sliding_window=9).windows == (None, None)


def test_folder_without_a_config(tmp_path: Path) -> None:
    """A folder that is no model says so; a broken file likewise."""
    with pytest.raises(BaseRefused, match=r"has no config\.json"):
        read_spec(tmp_path)
    folder = write_base(tmp_path / "base")
    assert read_spec(folder).name == "base"
    for text in ("{", "[]"):
        (folder / "config.json").write_text(text)
        with pytest.raises(BaseRefused, match="is not"):
            read_spec(folder)
