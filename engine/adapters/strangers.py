"""Tensors that land on no projection of the base: what each of them is, so that the refusal can say it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.adapters.base_shape import BaseShape
from engine.adapters.keys import TARGETS
from engine.adapters.refusal import refusal, shown
from engine.adapters.safetensors_file import StoredTensor
from engine.errors import AdapterRefused

MAGNITUDE = re.compile(r"\.lora_magnitude_vector(\.|$)")
VOCABULARY = re.compile(r"(^|\.)(embed_tokens|lm_head)\.")
HEAD = re.compile(r"(^|\.)(score|classifier|qa_outputs|v_head)\.")
MLX = re.compile(r"\.lora_[ab]$")
LORA = re.compile(r"\.lora_[A-Za-z]\w*(\..*)?$")


def refuse_strangers(strangers: Sequence[StoredTensor], *, num_matched: int, base: BaseShape) -> None:
    """Raises AdapterRefused for the one that says most; nothing happens when there are none.

    ``num_matched`` counts the tensors that did land: with none, the answer would be the base's.
    """
    if not strangers:
        return
    known = next((found for tensor in strangers if (found := _known(tensor, base)) is not None), None)
    if known is not None:
        raise known
    first = strangers[0].name
    if num_matched == 0:
        modules = {LORA.sub("", tensor.name) for tensor in strangers}
        message = f"None of the adapter's {len(modules)} modules is one of this base; the first tensor is {shown(first)}."
        raise refusal("no_matching_modules", message, param=first, expected=len(modules), found=0)
    message = f"{shown(first)} belongs to no projection of this base."
    raise refusal("unmatched_tensor", message, param=first, expected=", ".join(TARGETS), found=first)


def _known(tensor: StoredTensor, base: BaseShape) -> AdapterRefused | None:
    """The refusal of a tensor whose meaning is known; None for others."""
    name, text = tensor.name, shown(tensor.name)
    if MAGNITUDE.search(name):
        return refusal("dora_unsupported", f"{text} belongs to a DoRA adapter, which is not served.", param=name, found="DoRA")
    if MLX.search(name):
        return refusal("mlx_format", f"{text} is spelled as MLX-LM does; convert the adapter to PEFT first.", param=name, found="MLX-LM")
    if VOCABULARY.search(name):
        return _of_vocabulary(tensor, base)
    if HEAD.search(name):
        message = f"{text} is a trained head; this base generates text."
        return refusal("task_mismatch", message, param=name, expected="no head", found=name)
    if name.endswith(".bias"):
        return refusal("bias_unsupported", f"{text} is a bias; adapters that train biases are not served.", param=name, found=name)
    return None


def _of_vocabulary(tensor: StoredTensor, base: BaseShape) -> AdapterRefused:
    """LoRA on the embedding or the head, or a full copy of either."""
    name, text = tensor.name, shown(tensor.name)
    if ".lora_" in name:
        message = f"{text} adapts the embedding or the output head, which is not served."
        return refusal("embedding_unsupported", message, param=name, expected=", ".join(TARGETS), found=name)
    rows = tensor.shape[0] if tensor.shape else 0
    if rows != base.vocab_size:
        message = f"{text} has {rows} rows and the base has {base.vocab_size} tokens: the adapter adds tokens, which is not served."
        return refusal("vocab_mismatch", message, param=name, expected=base.vocab_size, found=rows)
    message = f"{text} replaces the base's own weights (modules_to_save), which is not served."
    return refusal("modules_to_save_unsupported", message, param=name, expected="LoRA matrices only", found=name)
