from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch

from engine.errors import BaseRefused
from engine.models.config import read_spec
from engine.weights.checkpoint import INDEX, stream_checkpoint
from engine.weights.fill import expected_parts, fill
from kernels.panels import ALIGN_BYTES
from kernels.register_tile import PANEL
from tests.engine.models.paged import in_one_pass, load_model
from tests.tiny import TINY, TINY_B, TINY_Q3, TINY_T, Tensors, TinyShape, base_tensors, write_base

PROMPT = [72, 105, 33, 10, 200]
Q = "model.layers.1.self_attn.q_proj.weight"


def change(folder: Path, edit: Callable[[Tensors], object]) -> Path:
    """Rewrite the folder's single weight file."""
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def shard(folder: Path, files: int = 3) -> Path:
    """Deal the folder's tensors over several files, so that layers straddle them, with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = {name: f"model-{number % files:05d}-of-{files:05d}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({name: tensor for name, tensor in tensors.items() if names[name] == file}, folder / file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


@pytest.mark.parametrize("shape", [TINY, TINY_T, TINY_B, TINY_Q3], ids=["llama", "tied", "qwen2", "qwen3"])
def test_expects_what_the_family_saves(tmp_path: Path, shape: TinyShape) -> None:
    """The names and shapes expected are exactly those of a folder of that family."""
    parts = expected_parts(read_spec(write_base(tmp_path / "base", shape)))
    assert {name: part.shape for name, part in parts.items()} == {name: tensor.shape for name, tensor in base_tensors(shape).items()}


def test_shards_give_the_same_model(tmp_path: Path) -> None:
    """How the tensors are dealt over files makes no difference, to the last bit."""
    whole = in_one_pass(load_model(write_base(tmp_path / "whole", TINY_B)), PROMPT)
    sharded = in_one_pass(load_model(shard(write_base(tmp_path / "sharded", TINY_B))), PROMPT)
    assert torch.equal(whole, sharded)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_served_in_fp32(tmp_path: Path, dtype: torch.dtype) -> None:
    """Weights saved in 16 bits give what their exact fp32 values give."""
    halves = {name: torch.from_numpy(tensor).to(dtype) for name, tensor in base_tensors(TINY).items()}
    half, full = write_base(tmp_path / "half"), write_base(tmp_path / "full")
    save_torch(halves, half / "model.safetensors")
    save_torch({name: tensor.float() for name, tensor in halves.items()}, full / "model.safetensors")
    assert torch.equal(in_one_pass(load_model(half), PROMPT), in_one_pass(load_model(full), PROMPT))


def test_progress_rises_to_one(tmp_path: Path) -> None:
    """Each tensor moves the share on, and the last completes it."""
    folder, heard = write_base(tmp_path / "base"), list[float]()
    fill(read_spec(folder), stream_checkpoint(folder), device=torch.device("cpu"), dtype=torch.float32, progress=heard.append)
    assert heard == sorted(heard)
    assert len(set(heard)) == len(base_tensors(TINY))
    assert heard[-1] == 1.0


def test_bytes_held_are_the_parameters(tmp_path: Path) -> None:
    """Untied, every parameter is held once, the two rotation tables beside them, and what fills each matrix's last panel."""
    model = load_model(write_base(tmp_path / "base"))
    tables = 2 * 256 * 8 * 4
    tensors = base_tensors(TINY)
    least = sum(tensor.nbytes for tensor in tensors.values()) + tables
    matrices = [tensor.shape for tensor in tensors.values() if tensor.ndim == 2]
    filling = sum(4 * (PANEL - 1) * depth + 4 * (width + PANEL) + ALIGN_BYTES for width, depth in matrices)
    assert least <= model.nbytes <= least + filling
    assert filling < least / 3


@pytest.mark.parametrize(
    ("edit", "param", "words"),
    [
        (lambda tensors: tensors.pop(Q), Q, "lack"),
        (lambda tensors: tensors.update({Q: tensors[Q][:, :-1].copy()}), Q, "has shape"),
        (lambda tensors: tensors.update({Q: tensors[Q].T[:32].copy()}), Q, "has shape"),
        (lambda tensors: tensors[Q].__setitem__((3, 3), np.nan), Q, "NaN"),
        (lambda tensors: tensors["model.norm.weight"].__setitem__(3, np.inf), "model.norm.weight", "NaN or infinity"),
        (lambda tensors: tensors.update({Q: tensors[Q].astype(np.int8)}), Q, "quantised"),
        (lambda tensors: tensors.update({f"{Q[:-6]}bias": np.ones(64, np.float32)}), f"{Q[:-6]}bias", "not part"),
        (
            lambda tensors: tensors.update({"model.layers.2.mlp.up_proj.weight": tensors[Q]}),
            "model.layers.2.mlp.up_proj.weight",
            "not part",
        ),
    ],
)
def test_refuses_by_tensor(tmp_path: Path, edit: Callable[[Tensors], object], param: str, words: str) -> None:
    """Missing, extra, misshapen, quantised and non-finite tensors are refused by name."""
    with pytest.raises(BaseRefused, match=words) as refusal:
        load_model(change(write_base(tmp_path / "base"), edit))
    assert refusal.value.param == param


def test_old_rotation_tables_are_ignored(tmp_path: Path) -> None:
    """``rotary_emb.inv_freq`` of old exports is not a parameter."""
    table = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    load_model(change(write_base(tmp_path / "base"), lambda tensors: tensors.update(table)))


def test_tied_head_must_be_the_embedding(tmp_path: Path) -> None:
    """A tied base may repeat its embedding as a head, whichever comes first; another head is refused rather than dropped."""
    folder = write_base(tmp_path / "base", TINY_T)
    change(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].copy()}))
    load_model(folder)
    change(folder, lambda tensors: tensors["lm_head.weight"].__setitem__((0, 0), 9.0))
    with pytest.raises(BaseRefused, match="differs") as refusal:
        load_model(folder)
    assert refusal.value.param == "lm_head.weight"


def test_damaged_folders(tmp_path: Path) -> None:
    """No weights, only pickled ones, truncated ones, a missing shard, an index that lies: each is refused in words."""
    folder = write_base(tmp_path / "base")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(BaseRefused, match="damaged"):
        load_model(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BaseRefused, match=r"pytorch_model.bin is pickle"):
        load_model(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(BaseRefused, match=r"no model.safetensors"):
        load_model(folder)
    (folder / "model.safetensors").write_bytes(whole)
    shard(folder)
    index = json.loads((folder / INDEX).read_text())
    for edit, words in (
        ({"model.norm.weight": "model-00001-of-00003.safetensors"}, "places elsewhere"),
        ({"model.extra": "model-00001-of-00003.safetensors"}, "which no file holds"),
        ({"model.extra": "model-00009.safetensors"}, "which is missing"),
        ({"model.extra": "../model.safetensors"}, "a file of this folder"),
    ):
        (folder / INDEX).write_text(json.dumps({"weight_map": index["weight_map"] | edit}))
        with pytest.raises(BaseRefused, match=words):
            load_model(folder)
    (folder / INDEX).write_text("{}")
    with pytest.raises(BaseRefused, match="weight_map"):
        load_model(folder)
