from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.errors import BaseRefused
from engine.models.config import read_spec
from engine.weights import digest as digests
from engine.weights.digest import base_digest
from tests.engine.weights.test_fill import shard
from tests.tiny import TINY, TINY_2, TINY_B, TinyShape, write_base


def digest(folder: Path, data: Path | None = None) -> str:
    """The digest of a folder."""
    return base_digest(folder, read_spec(folder), data=data)


def test_same_base_in_any_wrapping(tmp_path: Path) -> None:
    """A copy, a symlink, shards, another file order and cosmetic config fields are the same base."""
    folder = write_base(tmp_path / "base")
    expected = digest(folder)
    assert len(expected) == 64
    copy = shutil.copytree(folder, tmp_path / "another-name")
    (tmp_path / "link").symlink_to(folder)
    cosmetic = {"transformers_version": "9", "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    renamed = write_base(tmp_path / "cosmetic", TinyShape(config=cosmetic))
    tensors = load_file(copy / "model.safetensors")
    save_file(dict(reversed(tensors.items())), copy / "model.safetensors", metadata={"note": "x"})
    for same in (copy, tmp_path / "link", renamed, shard(write_base(tmp_path / "sharded"))):
        assert digest(same) == expected


def test_other_weights_or_behaviour_is_another_base(tmp_path: Path) -> None:
    """Another seed, one changed number, a renamed tensor's shape or a field that changes answers gives another digest."""
    shapes = (TINY, TINY_2, TINY_B, TinyShape(config={"rope_theta": 500.0}), TinyShape(config={"rms_norm_eps": 1e-5}))
    folders = [write_base(tmp_path / str(number), shape) for number, shape in enumerate(shapes)]
    nudged = write_base(tmp_path / "nudged")
    tensors = load_file(nudged / "model.safetensors")
    tensors["model.norm.weight"][5] = np.nextafter(tensors["model.norm.weight"][5], 2)
    save_file(tensors, nudged / "model.safetensors")
    found = [digest(folder) for folder in [*folders, nudged]]
    assert len(set(found)) == len(found)


def test_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a data folder the bytes are read once for each path, size and modification time; a changed file is read again."""
    folder, data, reads = write_base(tmp_path / "base"), tmp_path / "data", list[object]()
    read = digests.weights_digest
    monkeypatch.setattr(digests, "weights_digest", lambda files: reads.append(files) or read(files))
    first = digest(folder, data)
    assert digest(folder, data) == first == digest(folder)
    assert len(reads) == 2
    write_base(folder, TINY_2)
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert digest(folder, data) != first
    (data / digests.CACHE).write_text("not json")
    write_base(folder)
    assert digest(folder, data) == first
    assert json.loads((data / digests.CACHE).read_text())


@pytest.mark.parametrize("text", [b"", b"\xff" * 8, b"\x04\0\0\0\0\0\0\0[1]x", b"\x02\0\0\0\0\0\0\0{"])
def test_damaged_file(tmp_path: Path, text: bytes) -> None:
    """A file that is not safetensors is refused."""
    folder = write_base(tmp_path / "base")
    (folder / "model.safetensors").write_bytes(text)
    with pytest.raises(BaseRefused, match="damaged"):
        digest(folder)
