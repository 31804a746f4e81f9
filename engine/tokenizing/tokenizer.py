"""Text to token ids and back, as the base's own tokenizer.json says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import tokenizers

from engine.errors import BaseRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
METASPACE = "\N{LOWER ONE EIGHTH BLOCK}"
BytesOf = Literal["byte_level", "metaspace"]


class Tokenizer:
    """The base's tokenizer. Immutable; safe to share between threads."""

    def __init__(self, inner: tokenizers.Tokenizer, *, named: Mapping[str, str], eos_ids: frozenset[int], vocab_size: int) -> None:
        """``named``: token text by ``bos_token`` and the like. ``vocab_size``: rows of the base's head, padding included."""
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        """Any of them ends a text: the union of what the folder's files say."""
        self.named_tokens = named
        bos = named.get("bos_token")
        self.bos_id: int | None = None if bos is None else inner.token_to_id(bos)
        self._inner = inner
        self._texts = _texts(inner, vocab_size)
        self._special = frozenset(index for index, token in inner.get_added_tokens_decoder().items() if token.special)
        kind, self.strips_first_space = _decoder_of(inner)
        self._bytes = tuple(_token_bytes(text, kind) for text in self._texts)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """From tokenizer.json and the token ids of the folder's other files. Raises BaseRefused by file and field."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise BaseRefused(f"{folder} has no tokenizer.json", param="tokenizer.json")
        try:
            inner = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # noqa: BLE001 the library raises no narrower class
            raise BaseRefused(f"{path} is damaged: {error}", param="tokenizer.json") from None
        inner.no_padding()
        inner.no_truncation()
        named = _named_tokens(read_optional(folder / "tokenizer_config.json"), inner)
        vocab_size = read_optional(folder / "config.json").get("vocab_size", inner.get_vocab_size())
        return cls(inner, named=named, eos_ids=_eos_ids(folder, named, inner, vocab_size), vocab_size=vocab_size)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; names of special tokens in it become those tokens."""
        return self._inner.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids without special ones; bytes that are no character become U+FFFD."""
        text = b"".join(self.visible_bytes(index) for index in ids).decode("utf-8", errors="replace")
        return text[1:] if self.strips_first_space and text.startswith(" ") else text

    def token_text(self, index: int) -> str:
        """The token as the vocabulary spells it; empty for ids without one."""
        return self._texts[index]

    def token_bytes(self, index: int) -> bytes:
        """What the token adds to a text, special tokens by their name; empty for ids without one."""
        return self._bytes[index]

    def visible_bytes(self, index: int) -> bytes:
        """What ``decode`` takes from the token: nothing of special ones."""
        return b"" if index in self._special else self._bytes[index]

    def is_special(self, index: int) -> bool:
        """Whether the token marks structure and is not text."""
        return index in self._special


def read_optional(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one when the file is absent. Raises BaseRefused when it is anything else."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise BaseRefused(f"{path} is not JSON: {error}", param=path.name) from None
    if not isinstance(value, dict):
        raise BaseRefused(f"{path} is not a JSON object", param=path.name)
    return value


def _texts(inner: tokenizers.Tokenizer, vocab_size: int) -> tuple[str, ...]:
    by_id = {index: text for text, index in inner.get_vocab(with_added_tokens=True).items()}
    return tuple(by_id.get(index, "") for index in range(max(vocab_size, max(by_id, default=-1) + 1)))


def _named_tokens(config: Mapping[str, Any], inner: tokenizers.Tokenizer) -> dict[str, str]:
    """bos, eos and so on; each is text, or an object with its text as ``content``."""
    named = {}
    for name in NAMED_TOKENS:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if text is None:
            continue
        if not isinstance(text, str) or inner.token_to_id(text) is None:
            raise BaseRefused(f"tokenizer_config.json: {name} {text!r} is not in the vocabulary", param=name, found=text)
        named[name] = text
    return named


def _eos_ids(folder: Path, named: Mapping[str, str], inner: tokenizers.Tokenizer, vocab_size: int) -> frozenset[int]:
    """The union of the tokenizer's, config.json's and generation_config.json's; each of the latter is an id or a list."""
    found = {index for index in (inner.token_to_id(named.get("eos_token", "")),) if index is not None}
    for name in ("config.json", "generation_config.json"):
        value = read_optional(folder / name).get("eos_token_id")
        for index in value if isinstance(value, list) else () if value is None else (value,):
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < vocab_size:
                message = f"{name}: eos_token_id {index!r} is not a token id"
                raise BaseRefused(message, param="eos_token_id", expected=f"0 to {vocab_size - 1}", found=index)
            found.add(index)
    return frozenset(found)


def _decoder_of(inner: tokenizers.Tokenizer) -> tuple[BytesOf, bool]:
    """How tokens spell bytes, and whether a text loses its first space. Raises BaseRefused for a decoder that is neither kind."""
    decoder = json.loads(inner.to_str()).get("decoder") or {}
    steps = decoder.get("decoders", [decoder])
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return "byte_level", False
    if "Metaspace" in kinds or any(step.get("pattern") == {"String": METASPACE} for step in steps):
        strips = any(step.get("type") == "Strip" and step.get("start") == 1 for step in steps)
        return "metaspace", strips or any(step.get("prepend_scheme", "never") != "never" for step in steps)
    raise BaseRefused(
        f"tokenizer.json has the decoder {kinds}, which is not supported", param="decoder", expected="ByteLevel or Metaspace", found=kinds
    )


def _token_bytes(text: str, kind: BytesOf) -> bytes:
    """The bytes a token stands for."""
    if kind == "byte_level":
        if all(letter in BYTE_OF_LETTER for letter in text):
            return bytes(BYTE_OF_LETTER[letter] for letter in text)
        return text.encode()
    if len(text) == len("<0x00>") and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace(METASPACE, " ").encode()


def byte_letters() -> dict[int, str]:
    """The letter by which byte-level BPE (GPT-2) writes each byte: itself where printable, else the next from U+0100 on."""
    plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + rank) for rank, byte in enumerate(others)}


BYTE_OF_LETTER = {letter: byte for byte, letter in byte_letters().items()}
