"""adapter_config.json: what the adapter asks for, or why it is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.adapters.config_fields import check_fields
from engine.adapters.fields import flag_field, is_unset, names_field, number_field, rank_field, text_field
from engine.adapters.folder import CONFIG, refuse_mlx
from engine.adapters.json_text import parse_object
from engine.adapters.patterns import ModulePatterns
from engine.adapters.refusal import refusal, shown

HEAD_TASKS = {"SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS"}
"""Tasks whose adapters carry a trained head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """The fields that decide the output, and what the operator should know. Names are hints, never opened as paths."""

    rank: int
    alpha: float
    rslora: bool
    ranks: ModulePatterns[int]
    alphas: ModulePatterns[float]
    named_modules: tuple[str, ...] | None
    """``target_modules`` in list form; None for a regex, ``all-linear`` or null, where only the tensors present count."""
    limits_layers: bool
    """Whether the config itself leaves modules out (``layers_to_transform``, ``exclude_modules``)."""
    task_type: str
    saved_modules: tuple[str, ...]
    base_name: str
    revision: str
    warnings: tuple[str, ...]

    def rank_of(self, module: str) -> int:
        """The rank the config gives to a module's full name, such as ``model.layers.0.self_attn.q_proj``."""
        return self.ranks.value_for(module, default=self.rank)

    def scale(self, module: str, rank: int) -> float:
        """alpha / r, or alpha / sqrt(r) with rsLoRA (arXiv 2312.03732)."""
        alpha = self.alphas.value_for(module, default=self.alpha)
        return alpha / (math.sqrt(rank) if self.rslora else rank)


def read_config(data: bytes) -> AdapterConfig:
    """Parse and check. Raises AdapterRefused naming the field, what was expected and what was found."""
    fields = parse_object(data, file=CONFIG)
    refuse_mlx(fields)
    _check_peft_type(fields)
    warnings = check_fields(fields)
    task_type = text_field(fields.get("task_type"), "task_type")
    saved_modules = names_field(fields.get("modules_to_save"), "modules_to_save")
    return AdapterConfig(
        rank=rank_field(fields.get("r"), "r"),
        alpha=number_field(fields.get("lora_alpha"), "lora_alpha"),
        rslora=flag_field(fields.get("use_rslora"), "use_rslora"),
        ranks=ModulePatterns.read(fields.get("rank_pattern"), field="rank_pattern", as_value=rank_field),
        alphas=ModulePatterns.read(fields.get("alpha_pattern"), field="alpha_pattern", as_value=number_field),
        named_modules=_named_modules(fields.get("target_modules")),
        limits_layers=not all(is_unset(fields.get(name)) for name in ("layers_to_transform", "exclude_modules"))
        or fields.get("layers_to_transform") == 0,
        task_type=task_type,
        saved_modules=saved_modules,
        base_name=text_field(fields.get("base_model_name_or_path"), "base_model_name_or_path"),
        revision=text_field(fields.get("revision"), "revision"),
        warnings=(*warnings, *_check_task(task_type, saved_modules)),
    )


def _check_peft_type(fields: dict[str, object]) -> None:
    found = fields.get("peft_type")
    if found != "LORA":
        message = f"peft_type must be LORA, the one method served; found {shown(repr(found))}."
        raise refusal("unsupported_peft_type", message, param="peft_type", expected="LORA", found=None if found is None else str(found))


def _check_task(task_type: str, saved_modules: tuple[str, ...]) -> tuple[str, ...]:
    """A warning when a text-generation base is not what the adapter was trained for; a refusal when it brings a head."""
    if task_type in {"", "CAUSAL_LM"}:
        return ()
    if task_type in HEAD_TASKS and saved_modules:
        message = f"The adapter is trained for {task_type} with a head of its own; this base generates text."
        raise refusal("task_mismatch", message, param="task_type", expected="CAUSAL_LM", found=task_type)
    return (f"task_type is {shown(task_type)}, not CAUSAL_LM; the adapter is served for text generation.",)


def _named_modules(value: object) -> tuple[str, ...] | None:
    """A list as it is; a text (``all-linear`` or a regex, never run here) and null are None."""
    if value is None or isinstance(value, str):
        return None
    return names_field(value, "target_modules")
