"""Every field of adapter_config.json that changes the answer and is not served, and every one that does not matter."""

from __future__ import annotations

from engine.adapters.fields import flag_field, is_unset, text_field
from engine.adapters.refusal import RefusalCode, refusal, shown

REFUSED_IF_SET: dict[str, tuple[RefusalCode, str]] = {
    "use_dora": ("dora_unsupported", "DoRA adapters are not served: their magnitudes would be lost."),
    "lora_bias": ("bias_unsupported", "Adapters with a bias in their LoRA layers are not served."),
    "fan_in_fan_out": ("unsupported_field", "fan_in_fan_out belongs to Conv1D bases; this base stores (out, in) weights."),
    "use_qalora": ("unsupported_field", "QALoRA groups inputs, which is not served."),
    "use_bdlora": ("unsupported_field", "Block-diagonal LoRA is not served."),
    "kasa_config": ("unsupported_field", "KaSA changes the base's weights, which is not served."),
    "velora_config": ("unsupported_field", "VeLoRA is not served."),
    "monteclora_config": ("unsupported_field", "MonteCLoRA is not served."),
    "arrow_config": ("unsupported_field", "Arrow routing between adapters is not served."),
    "alora_invocation_tokens": ("unsupported_field", "Activated LoRA begins in the middle of a prompt, which is not served."),
    "layer_replication": ("unsupported_field", "Replicated layers are not served."),
    "trainable_token_indices": ("unsupported_field", "Trained token embeddings are not served."),
    "target_parameters": ("unsupported_field", "LoRA on bare parameters (experts) is not served."),
    "enable_lora": ("unsupported_field", "LoRA on parts of a merged projection is not served."),
}

KNOWN = {
    # read elsewhere
    *("peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "target_modules", "exclude_modules"),
    *("layers_to_transform", "task_type", "modules_to_save", "base_model_name_or_path", "revision", "bias", "init_lora_weights"),
    # of training only, or of no effect on the output
    *("auto_mapping", "peft_version", "inference_mode", "lora_dropout", "layers_pattern", "megatron_config", "megatron_core"),
    *("loftq_config", "eva_config", "corda_config", "lora_ga_config", "qalora_group_size", "runtime_config", "ensure_weight_tying"),
    *("merge_weights",),
}

INITS_BESIDE_THE_BASE = {"gaussian", "eva", "orthogonal"}
"""Initialisations that leave the base's weights alone; the others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA…) change them."""


def check_fields(fields: dict[str, object]) -> tuple[str, ...]:
    """Warnings about fields that are not known. Raises AdapterRefused on a field that changes the output and is not served."""
    for field, (code, message) in REFUSED_IF_SET.items():
        if not is_unset(found := fields.get(field)):
            raise refusal(code, message, param=field, expected=None, found=shown(repr(found)))
    _check_bias(fields)
    _check_init(fields.get("init_lora_weights"))
    unknown = sorted(field for field, value in fields.items() if field not in KNOWN | REFUSED_IF_SET.keys() and not is_unset(value))
    return tuple(f"The field {shown(field)} of adapter_config.json is not known and was ignored." for field in unknown)


def _check_bias(fields: dict[str, object]) -> None:
    bias = text_field(fields.get("bias"), "bias")
    if bias not in {"", "none"}:
        raise refusal("bias_unsupported", "Adapters that train biases are not served.", param="bias", expected="none", found=bias)


def _check_init(init: object) -> None:
    """A start from the base's own weights leaves the residual as base, which is not the base served here."""
    if isinstance(init, str) and init.lower() not in INITS_BESIDE_THE_BASE | {"true", "false"}:
        message = f"init_lora_weights {shown(init)!r} changes the base's weights. Save the adapter converted to plain LoRA."
        raise refusal("unsupported_field", message, param="init_lora_weights", expected="true", found=init)
    if init is not None and not isinstance(init, str):
        flag_field(init, "init_lora_weights")
