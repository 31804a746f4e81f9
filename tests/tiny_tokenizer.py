"""The tokenizer of TINY bases: 256 bytes, four special tokens, no BOS, ChatML."""

from __future__ import annotations

EOS, IM_START, IM_END, PAD = 256, 257, 258, 259
SPECIAL_TOKENS = {"<|eos|>": EOS, "<|im_start|>": IM_START, "<|im_end|>": IM_END, "<|pad|>": PAD}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer_json(vocab: int) -> dict[str, object]:
    """Byte-level BPE without merges: ids 0–255 are the bytes, then the special tokens, then ``<r0>``, ``<r1>``… up to ``vocab``."""
    letters = {letter: byte for byte, letter in byte_letters().items()}
    fill = {f"<r{index - PAD - 1}>": index for index in range(PAD + 1, vocab)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token, "content": text, **flags} for text, token in SPECIAL_TOKENS.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
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
            "vocab": letters | SPECIAL_TOKENS | fill,
            "merges": [],
        },
    }


def byte_letters() -> dict[int, str]:
    """The printable letter that byte-level BPE writes for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + rank) for rank, byte in enumerate(others)}


def tokenizer_config(context: int) -> dict[str, object]:
    """No BOS; the ChatML template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": "<|eos|>",
        "pad_token": "<|pad|>",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
