"""What the right answer is: ``transformers`` and ``peft`` in fp32, or the base with W + s·B·A added by hand."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel
from safetensors.numpy import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()

LOGIT_TOLERANCE = 1e-4
"""Largest difference of a logit in fp32; sums in another order on TINY differ by some 1e-6."""


def base_model(folder: Path) -> nn.Module:
    """The base alone, fp32, eager attention."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()  # type: ignore[no-any-return]


def peft_model(base: Path, adapter: Path) -> nn.Module:
    """The base under one adapter, unmerged, as ``peft`` serves it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft uses names that transformers calls deprecated
        return PeftModel.from_pretrained(base_model(base), adapter).eval()


def merged_model(base: Path, adapter: Path) -> nn.Module:
    """The base with s·B·A added to its weights by plain arithmetic: independent of ``peft``."""
    model = base_model(base)
    for name, delta in deltas(adapter).items():
        model.get_submodule(name).weight.data += torch.from_numpy(delta)
    return model


def deltas(adapter: Path) -> dict[str, NDArray[np.float32]]:
    """s·B·A [out, in] by module name (``model.layers.0.self_attn.q_proj``), for plain keys and exact or suffix patterns."""
    config = json.loads((adapter / "adapter_config.json").read_text())
    tensors = load_file(adapter / "adapter_model.safetensors")
    found = {}
    for key, a in tensors.items():
        if not key.endswith(".lora_A.weight"):
            continue
        name = key.removesuffix(".lora_A.weight").removeprefix("base_model.model.")
        b = tensors[key.replace("lora_A", "lora_B")]
        found[name] = scale_of(config, name, a.shape[0]) * (b.astype(np.float32) @ a.astype(np.float32))
    return found


def scale_of(config: dict[str, object], name: str, rank: int) -> np.float32:
    """alpha / r, or alpha / sqrt(r) with rsLoRA."""
    pattern = config.get("alpha_pattern") or {}
    assert isinstance(pattern, dict)
    alpha = next((value for end, value in pattern.items() if name.endswith(end)), config["lora_alpha"])
    return np.float32(alpha / (rank**0.5 if config.get("use_rslora") else rank))


@torch.inference_mode()
def logits(model: nn.Module, tokens: Sequence[int]) -> Tensor:
    """[len(tokens), vocab] fp32, one row a position."""
    return model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0].float()  # type: ignore[no-any-return]


@torch.inference_mode()
def greedy(model: nn.Module, tokens: Sequence[int], new_tokens: int = 24) -> list[int]:
    """The next ``new_tokens`` ids, end tokens included and not obeyed; each step recomputes, so no cache can be wrong."""
    sequence = list(tokens)
    for _ in range(new_tokens):
        sequence.append(int(logits(model, sequence)[-1].argmax()))
    return sequence[len(tokens) :]


def top_gap(model: nn.Module, tokens: Sequence[int], new_tokens: int = 24) -> float:
    """The smallest gap between the two best logits along the greedy text: how much rounding it can bear."""
    sequence, gap = list(tokens), float("inf")
    for _ in range(new_tokens):
        best = logits(model, sequence)[-1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        sequence.append(int(best.indices[0]))
    return gap
