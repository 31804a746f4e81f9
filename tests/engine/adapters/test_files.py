"""A17, A18, A28, D03, D08: damaged, hostile and mistaken files are refused before anything believes them."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from engine.adapters.pack import pack
from engine.adapters.safetensors_file import PICKLE_MARKS
from engine.errors import AdapterRefused
from tests.engine.adapters.bench import PAGE_ELEMS, edit_tensors, parse, refused
from tests.tiny import AdapterRecipe, Tensors, write_adapter

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
Q0 = "base_model.model.model.layers.0.self_attn.q_proj"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def raw(folder: Path, data: bytes) -> Path:
    """A healthy adapter whose weights file is replaced."""
    (write_adapter(folder) / WEIGHTS).write_bytes(data)
    return folder


def with_header(header: bytes, data: bytes = b"") -> bytes:
    """A safetensors file around a header."""
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_git_lfs_pointer_is_told_as_such(tmp_path: Path, name: str) -> None:
    """A28: in either file."""
    (write_adapter(tmp_path) / name).write_bytes(LFS)
    with refused("lfs_pointer", param=name):
        parse(tmp_path)


@pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 1.0])
def test_a_cut_file_is_told_with_both_sizes(tmp_path: Path, part: float) -> None:
    """A28: 10 %, 50 %, all but the last byte, and all but nothing."""
    whole = (write_adapter(tmp_path / "whole") / WEIGHTS).read_bytes()
    cut = whole[: min(int(len(whole) * part), len(whole) - 1)]
    with refused("truncated") as caught:
        parse(raw(tmp_path / "cut", cut))
    assert caught.value.found == len(cut)
    assert isinstance(caught.value.expected, int)
    assert len(cut) < caught.value.expected <= len(whole)


def test_an_empty_file_is_cut(tmp_path: Path) -> None:
    """A28: nothing at all."""
    with refused("truncated", found=0):
        parse(raw(tmp_path, b""))


def test_trailing_bytes_are_refused(tmp_path: Path) -> None:
    """A28: 40 bytes behind the last tensor."""
    whole = (write_adapter(tmp_path / "whole") / WEIGHTS).read_bytes()
    with refused("trailing_bytes", expected=len(whole), found=len(whole) + 40):
        parse(raw(tmp_path / "long", whole + bytes(40)))


def test_a_file_without_tensors_is_refused(tmp_path: Path) -> None:
    """A17: a header with metadata only."""
    with refused("no_tensors", found=0) as caught:
        parse(raw(tmp_path, with_header(b'{"__metadata__":{"format":"pt"}}')))
    assert "gathered" in caught.value.message


@pytest.mark.parametrize("keys", ["all", "one B"])
def test_empty_tensors_are_refused(tmp_path: Path, keys: str) -> None:
    """A17: what an ungathered sharded training saves."""
    empty = np.zeros(0, dtype=np.float32)

    def drop(tensors: Tensors) -> Tensors:
        return {key: empty if keys == "all" or key == f"{Q0}.lora_B.weight" else value for key, value in tensors.items()}

    with refused("empty_tensor", found=[0]) as caught:
        parse(edit_tensors(write_adapter(tmp_path), drop))
    assert "gathered" in caught.value.message


@pytest.mark.parametrize(("half", "value"), [("A", np.nan), ("B", np.inf), ("B", -np.inf)])
def test_values_that_are_no_numbers_are_refused(tmp_path: Path, half: str, value: float) -> None:
    """A18: with the tensor and how many."""

    def poison(tensors: Tensors) -> None:
        tensors[f"{Q0}.lora_{half}.weight"][0, :3] = value

    with refused("non_finite", param=f"{Q0}.lora_{half}.weight", expected=0, found=3):
        parse(edit_tensors(write_adapter(tmp_path), poison))


@pytest.mark.parametrize(("half", "value"), [("A", 1e6), ("B", 1e6), ("B", 40_000.0)])
def test_values_too_large_for_the_serving_dtype_are_refused(tmp_path: Path, half: str, value: float) -> None:
    """A18: finite in fp32; in fp16 not, or not once the scale of 2 is folded in."""

    def enlarge(tensors: Tensors) -> None:
        tensors[f"{Q0}.lora_{half}.weight"][0, 0] = value

    parsed = parse(edit_tensors(write_adapter(tmp_path), enlarge))
    assert pack(parsed, page_elems=PAGE_ELEMS, dtype=torch.float32).num_pages
    with refused("dtype_overflow", param=f"{Q0}.lora_{half}.weight", expected="float16", found=1):
        pack(parsed, page_elems=PAGE_ELEMS, dtype=torch.float16)


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.int64])
def test_other_dtypes_are_refused(tmp_path: Path, dtype: type) -> None:
    """Only fp32, fp16 and bf16 are adapters' dtypes."""
    with refused("dtype_unsupported"):
        parse(edit_tensors(write_adapter(tmp_path), lambda tensors: {key: value.astype(dtype) for key, value in tensors.items()}))


# -- D03: pickles --


class Marker:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "names", [["adapter_model.bin"], [WEIGHTS], [WEIGHTS, "adapter_model.bin"], ["weights.pt"], [WEIGHTS, "adapter_model.ckpt"]]
)
def test_a_pickle_never_runs(tmp_path: Path, names: list[str], protocol: int) -> None:
    """D03: under its own name, under a safetensors name, and beside a healthy file."""
    marker = tmp_path / "ran"
    folder = write_adapter(tmp_path / "adapter")
    if WEIGHTS not in names:
        (folder / WEIGHTS).unlink()
    (folder / names[-1]).write_bytes(pickle.dumps(Marker(marker), protocol=protocol))
    with refused("pickle_refused", param=names[-1]) as caught:
        parse(folder)
    assert "convert to safetensors" in caught.value.message
    assert not marker.exists()


def test_a_torch_archive_under_a_safetensors_name_is_refused(tmp_path: Path) -> None:
    """D03: what torch.save writes is a zip of pickles."""
    torch.save({"a": torch.ones(2)}, write_adapter(tmp_path) / WEIGHTS)
    with refused("pickle_refused", param=WEIGHTS):
        parse(tmp_path)


def test_leftovers_of_a_trainer_are_ignored(tmp_path: Path) -> None:
    """D03: code and pickles beside the weights are neither read nor a reason to refuse."""
    for name in ("training_args.bin", "optimizer.pt", "rng_state.pth", "modeling.py", "state.pkl"):
        (write_adapter(tmp_path) / name).write_bytes(b"\x80\x04.")
    assert parse(tmp_path).num_matched == 4


def test_a_healthy_header_of_640_bytes_is_no_pickle(tmp_path: Path) -> None:
    """640 is written 80 02 00 …, as a pickle of protocol 2 begins."""
    folder = write_adapter(tmp_path, AdapterRecipe(modules=["q_proj"]))
    data = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(data[:8], "little")
    padded = with_header(data[8 : 8 + length].ljust(640), data[8 + length :])
    assert padded.startswith(PICKLE_MARKS)
    (folder / WEIGHTS).write_bytes(padded)
    assert parse(folder).num_matched == 2


# -- D08: sizes chosen by an attacker --


def many_tensors(count: int) -> bytes:
    """A header of ``count`` empty tensors."""
    entries = ",".join(f'"t{index}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for index in range(count))
    return with_header(f"{{{entries}}}".encode())


HOSTILE = {
    "declares 2^62": lambda: (2**62).to_bytes(8, "little") + b"{}",
    "declares 100 MB and a byte": lambda: (100_000_001).to_bytes(8, "little") + b"{}",
    "850,000 empty tensors": lambda: many_tensors(850_000),
    "30,000 empty tensors": lambda: many_tensors(30_000),
    "95 MB of metadata": lambda: with_header(b'{"__metadata__":{"a":"' + b"x" * 95_000_000 + b'"}}'),
    "200,000 nested brackets": lambda: with_header(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "5,000 nested brackets": lambda: with_header(b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    "a number of a million digits": lambda: with_header(b'{"a":' + b"9" * 1_000_000 + b"}"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_header_costs_nothing(tmp_path: Path, case: str) -> None:
    """D08: refused in under 100 ms (of this thread's CPU: other tests share the machine) and 20 MB, however large the file."""
    folder = raw(tmp_path, HOSTILE[case]())
    tracemalloc.start()
    start_s = time.thread_time()
    try:
        with pytest.raises(AdapterRefused) as caught:
            parse(folder)
        used_s = time.thread_time() - start_s
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code in {"header_too_large", "safetensors_invalid"}
    assert used_s < 0.1
    assert peak_bytes < 20_000_000


@pytest.mark.parametrize("case", ["200,000 nested brackets", "30,000 entries", "2 MB"])
def test_a_hostile_config_costs_nothing(tmp_path: Path, case: str) -> None:
    """D08: likewise adapter_config.json."""
    text = {
        "200,000 nested brackets": '{"a":' + "[" * 200_000,
        "30,000 entries": json.dumps({"a": list(range(90_000))}),
        "2 MB": " " * 2_000_000,
    }
    (write_adapter(tmp_path) / CONFIG).write_text(text[case])
    with refused("header_too_large", param=CONFIG):
        parse(tmp_path)


ENTRY = {"dtype": "F32", "shape": [8, 64], "data_offsets": [0, 2048]}
B_ENTRY = {"dtype": "F32", "shape": [64, 8], "data_offsets": [2048, 4096]}
MALFORMED = {
    "overlap": {"a": ENTRY, "b": B_ENTRY | {"data_offsets": [0, 2048]}},
    "hole": {"a": ENTRY, "b": B_ENTRY | {"data_offsets": [2052, 4100]}},
    "begins late": {"a": ENTRY | {"data_offsets": [4, 2052]}, "b": B_ENTRY},
    "backwards": {"a": ENTRY | {"data_offsets": [2048, 0]}, "b": B_ENTRY},
    "too few bytes": {"a": ENTRY | {"shape": [8, 65]}, "b": B_ENTRY},
    "negative": {"a": ENTRY | {"shape": [-8, -64]}, "b": B_ENTRY},
    "huge shape": {"a": ENTRY | {"shape": [2**40] * 8}, "b": B_ENTRY},
    "nine dimensions": {"a": ENTRY | {"shape": [8, 64, 1, 1, 1, 1, 1, 1, 1]}, "b": B_ENTRY},
    "flag as size": {"a": ENTRY | {"shape": [True, 512]}, "b": B_ENTRY},
    "text as size": {"a": ENTRY | {"shape": ["8", 64]}, "b": B_ENTRY},
    "three offsets": {"a": ENTRY | {"data_offsets": [0, 2048, 0]}, "b": B_ENTRY},
    "no dtype": {"a": {"shape": [8, 64], "data_offsets": [0, 2048]}, "b": B_ENTRY},
    "not an object": {"a": 1, "b": B_ENTRY},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_header_that_lies_is_refused(tmp_path: Path, case: str) -> None:
    """D08: offsets, shapes and kinds are proven before a byte is read."""
    with refused("safetensors_invalid"):
        parse(raw(tmp_path, with_header(json.dumps(MALFORMED[case]).encode(), bytes(4096))))


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b'{"a":NaN}', b'{"a":1,"a":1}', b"\xff\xfe{}", b"{}x"])
def test_a_header_that_is_no_object_is_refused(tmp_path: Path, text: bytes) -> None:
    """D08: JSON, once each name, without NaN."""
    with pytest.raises(AdapterRefused) as caught:
        parse(raw(tmp_path, with_header(text)))
    assert caught.value.code in {"safetensors_invalid", "pickle_refused"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 6), cut=st.floats(0.2, 1.0))
def test_any_damage_is_refused_or_harmless(tmp_path: Path, seed: int, flips: int, cut: float) -> None:
    """A28: whatever bytes change, the outcome is a typed refusal or an adapter, never another error."""
    folder = tmp_path if (tmp_path / WEIGHTS).exists() else write_adapter(tmp_path)
    save_file({f"{Q0}.lora_A.weight": np.ones((2, 64), np.float32), f"{Q0}.lora_B.weight": np.ones((64, 2), np.float32)}, folder / WEIGHTS)
    data = bytearray((folder / WEIGHTS).read_bytes())
    source = random.Random(seed)
    for _ in range(flips):
        data[source.randrange(300)] = source.randrange(256)
    (folder / WEIGHTS).write_bytes(bytes(data[: int(len(data) * cut)]))
    (folder / CONFIG).write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 2}))
    with contextlib.suppress(AdapterRefused):
        assert parse(folder).rank == 2
