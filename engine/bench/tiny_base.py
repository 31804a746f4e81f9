"""A base for what needs one and not its answers: two random Llama layers of width 64 and a tokenizer of bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import torch
from safetensors.torch import save_file

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

LAYERS: Final = 2
HIDDEN, MLP, KV, HEAD = 64, 96, 32, 16
VOCAB, CONTEXT, END = 320, 256, 256
STD: Final = 0.2
SEED: Final = 1
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HIDDEN // HEAD,
    "num_key_value_heads": KV // HEAD,
    "head_dim": HEAD,
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "eos_token_id": END,
    "torch_dtype": "float32",
}
"""The config comes last: it marks a folder that is whole."""
SHAPES: Final = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KV, HIDDEN),
    "self_attn.v_proj": (KV, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (MLP, HIDDEN),
    "mlp.up_proj": (MLP, HIDDEN),
    "mlp.down_proj": (HIDDEN, MLP),
}


def write_tiny_base(folder: Path) -> Path:
    """A Hugging Face folder, the same bytes each time; one that is there is kept. Returns ``folder``."""
    if (folder / "config.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_tensors(), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def _tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    tensors = {"model.embed_tokens.weight": torch.randn(VOCAB, HIDDEN, generator=generator) * STD, "model.norm.weight": torch.ones(HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for name, shape in SHAPES.items():
            tensors[f"{at}.{name}.weight"] = torch.randn(*shape, generator=generator) * STD
        tensors |= {f"{at}.{norm}_layernorm.weight": torch.ones(HIDDEN) for norm in ("input", "post_attention")}
    return tensors


def _tokenizer() -> dict[str, object]:
    """256 bytes, an end, and names up to the head's rows."""
    letters = {_letter(byte): byte for byte in range(256)}
    fill = {f"<r{index}>": index for index in range(END + 1, VOCAB)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": END, "content": "<|end|>", **flags}],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": letters | {"<|end|>": END} | fill, "merges": []},
    }


def _letter(byte: int) -> str:
    """What byte-level BPE writes for a byte: itself where it is printable, else a letter from U+0100 on, in order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return chr(byte) if byte in plain else chr(256 + byte - sum(one < byte for one in plain))
