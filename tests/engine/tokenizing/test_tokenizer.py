from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.errors import BaseRefused
from engine.tokenizing.tokenizer import METASPACE, Tokenizer
from tests.tiny import TINY, write_base
from tests.tiny_tokenizer import EOS, IM_END

TRICKY = (
    "",
    " ",
    "  leading and trailing  ",
    "a\n\n\tb\r\nc",
    "2024-11-29 3.14159 1234567890 ½ ² ٣",
    "don't can't we'll I'M",
    "안녕하세요, 세계! 日本語テキスト",
    "naïve café Ωμέγα עברית العربية",
    "👨‍👩‍👧‍👦 🏳️‍🌈 e\u0301 \u200b\ufeff",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start |> <|not_a_token|>",
    "def f(x):\n    return {'a': [1, 22, 333]}  # comment",
    "x" * 300,
    "\0\x01\x7f\x80\xff",
)


UNKNOWN = "<unk>"


def write_metaspace(folder: Path) -> Path:
    """A small tokenizer as Llama 2 has it: ``▁`` for spaces, bytes as a fallback, the first space dropped."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), METASPACE, *"abcdeopstw", "two", METASPACE + "two"]
    merges = [("t", "w"), ("tw", "o"), (METASPACE, "two")]
    vocab = {piece: index for index, piece in enumerate([*pieces, "tw"])}
    library = Library(models.BPE(vocab, merges, byte_fallback=True, unk_token=UNKNOWN, fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend(METASPACE), normalizers.Replace(" ", METASPACE)])
    steps = [decoders.Replace(METASPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    library.decoder = decoders.Sequence(steps)
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    folder.mkdir(exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def edit(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file; None removes."""
    value = json.loads(path.read_text()) if path.exists() else {}
    value |= fields
    path.write_text(json.dumps({name: field for name, field in value.items() if field is not None}))


@pytest.mark.parametrize("text", TRICKY)
def test_tiny_equals_transformers(tiny_base: Path, text: str) -> None:
    """Ids and text are transformers' own on TINY's bytes."""
    check_equal(Tokenizer.load(tiny_base), AutoTokenizer.from_pretrained(tiny_base), text)


@pytest.mark.demo
def test_demo_equals_transformers(demo_folder: Path) -> None:
    """Likewise on the demo base's merges, digits and special tokens."""
    ours, theirs = Tokenizer.load(demo_folder), AutoTokenizer.from_pretrained(demo_folder)
    for text in TRICKY:
        check_equal(ours, theirs, text)
    assert ours.eos_ids == {2}
    assert ours.bos_id == 1
    assert ours.vocab_size == 49152
    assert [ours.token_text(index) for index in ours.encode("in 2024")] == ["in", "Ġ", "2", "0", "2", "4"]


def check_equal(ours: Tokenizer, theirs: PreTrainedTokenizerFast, text: str) -> None:
    """Same ids, same text back."""
    ids = theirs.encode(text)
    assert ours.encode(text) == ids
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert b"".join(map(ours.token_bytes, ids)) == text.encode()


@pytest.mark.parametrize("text", [text for text in TRICKY if "<|" not in text])
def test_metaspace_equals_transformers(tmp_path: Path, text: str) -> None:
    """Spaces as ``▁`` and characters as fallback bytes decode as transformers does."""
    folder = write_metaspace(tmp_path / "llama2")
    ours, theirs = Tokenizer.load(folder), PreTrainedTokenizerFast.from_pretrained(folder)
    ids = theirs.encode(text, add_special_tokens=False)
    assert ours.encode(text, add_special_tokens=False) == ids
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_special_tokens_are_not_text(tiny_base: Path) -> None:
    """``decode`` leaves special tokens out; their names are known and their bytes are their names."""
    tokenizer = Tokenizer.load(tiny_base)
    assert tokenizer.decode([104, EOS, 105, IM_END]) == "hi"
    assert tokenizer.is_special(EOS)
    assert not tokenizer.is_special(104)
    assert tokenizer.token_text(EOS) == "<|eos|>"
    assert tokenizer.token_bytes(EOS) == b"<|eos|>"
    assert tokenizer.token_bytes(200) == b"\xc8"


def test_ids_beyond_the_vocabulary(tmp_path: Path) -> None:
    """A head with more rows than the tokenizer has tokens may yield them; they are no text."""
    folder = write_base(tmp_path / "base")
    edit(folder / "config.json", vocab_size=TINY.vocab + 8)
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.vocab_size == TINY.vocab + 8
    assert tokenizer.decode([104, TINY.vocab + 7]) == "h"
    assert tokenizer.token_text(TINY.vocab + 7) == ""


@pytest.mark.parametrize(
    ("tokenizer_eos", "config_eos", "generation_eos", "expected"),
    [
        ("<|eos|>", 257, [258, 259], {256, 257, 258, 259}),
        ("<|eos|>", None, None, {256}),
        (None, [257, 258], None, {257, 258}),
        (None, None, 3, {3}),
        ({"content": "<|pad|>"}, 259, 259, {259}),
        (None, None, None, set()),
    ],
)
def test_every_source_of_stop_ids(
    tmp_path: Path, tokenizer_eos: object, config_eos: object, generation_eos: object, expected: set[int]
) -> None:
    """The stop ids are the union of the tokenizer's, config.json's and generation_config.json's, each an id or a list."""
    folder = write_base(tmp_path / "base")
    edit(folder / "tokenizer_config.json", eos_token=tokenizer_eos)
    edit(folder / "config.json", eos_token_id=config_eos)
    edit(folder / "generation_config.json", eos_token_id=generation_eos)
    assert Tokenizer.load(folder).eos_ids == expected


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("value", [320, -1, [256, 999], "2", 1.5, True, [None]])
def test_bad_stop_ids_are_refused(tmp_path: Path, file: str, value: object) -> None:
    """A stop id that no token has is an error at start-up, not a chat that never ends."""
    folder = write_base(tmp_path / "base")
    edit(folder / file, eos_token_id=value)
    with pytest.raises(BaseRefused, match=file.replace(".", r"\.")) as refusal:
        Tokenizer.load(folder)
    assert refusal.value.param == "eos_token_id"


def test_damaged_folders(tmp_path: Path) -> None:
    """No tokenizer, a broken one, an unknown decoder and a named token outside the vocabulary are refused in words."""
    folder = write_base(tmp_path / "base")
    edit(folder / "tokenizer_config.json", bos_token=UNKNOWN)
    with pytest.raises(BaseRefused, match="not in the vocabulary"):
        Tokenizer.load(folder)
    (folder / "tokenizer_config.json").write_text("[]")
    with pytest.raises(BaseRefused, match="not a JSON object"):
        Tokenizer.load(folder)
    (folder / "tokenizer_config.json").unlink()
    edit(folder / "tokenizer.json", decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    with pytest.raises(BaseRefused, match="WordPiece"):
        Tokenizer.load(folder)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BaseRefused, match="damaged"):
        Tokenizer.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(BaseRefused, match=r"no tokenizer\.json"):
        Tokenizer.load(folder)
