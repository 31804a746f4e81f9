"""The tokenizer inside a GGUF file → the files that Hugging Face reads."""

from __future__ import annotations

from typing import Any

from engine.errors import BaseRefused

BYTE_LEVEL_SPLITS = {"smollm"}
"""``tokenizer.ggml.pre`` values whose pre-tokenizer is built here."""
CONTROL = 3
"""The special tokens in ``tokenizer.ggml.token_type``."""


def tokenizer_files(fields: dict[str, Any]) -> dict[str, dict[str, object]]:
    """File name → JSON value of tokenizer.json, tokenizer_config.json and generation_config.json.

    Raises BaseRefused for any tokenizer but a byte-level BPE with the splits of SmolLM.
    """
    kind, split = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in BYTE_LEVEL_SPLITS:
        raise BaseRefused(
            f"the GGUF file has a {kind!r} tokenizer with {split!r} splits, which is not supported",
            param="tokenizer.ggml.pre",
            expected=sorted(BYTE_LEVEL_SPLITS),
            found=split,
        )
    return {
        "tokenizer.json": tokenizer_json(fields),
        "tokenizer_config.json": _tokenizer_config(fields),
        "generation_config.json": {
            "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
            "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
            "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        },
    }


def tokenizer_json(fields: dict[str, Any]) -> dict[str, object]:
    """Byte-level BPE; every digit is a piece of its own before GPT-2's pattern splits the rest."""
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [{"id": index, "content": tokens[index], **flags} for index, kind in enumerate(types) if kind == CONTROL]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _tokenizer_config(fields: dict[str, Any]) -> dict[str, object]:
    tokens = fields["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[fields["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[fields["tokenizer.ggml.unknown_token_id"]],
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        "chat_template": fields.get("tokenizer.chat_template"),
    }
