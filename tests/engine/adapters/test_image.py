"""Images on disk: what was written comes back in one read, and damage never does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.adapters.image import HEADER_ALIGN, AdapterImage
from engine.adapters.pack import PackedAdapter
from engine.adapters.tiers import DiskTier
from tests.engine.adapters.bench import packed, refused
from tests.tiny import MODULES, AdapterRecipe, write_adapter


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def written(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[PackedAdapter, Path]:
    """A packed adapter and its image file."""
    image = packed(write_adapter(tmp_path / "adapter", AdapterRecipe(rank=20, modules=MODULES)), dtype=request.param)
    path = tmp_path / f"{image.id}.image"
    image.write_image(path)
    return image, path


def read(image: AdapterImage) -> memoryview:
    """The pages."""
    buffer = memoryview(bytearray(image.pages_bytes))
    image.read_into(buffer)
    return buffer


def test_an_image_comes_back_whole(written: tuple[PackedAdapter, Path]) -> None:
    """Header and pages, in whole 4096-byte steps."""
    packed_adapter, path = written
    image = AdapterImage.open(path)
    assert (image.id, image.num_pages, image.dtype) == (packed_adapter.id, packed_adapter.num_pages, packed_adapter.pages.dtype)
    assert image.page_elems == packed_adapter.pages.shape[1]
    assert image.header_bytes % HEADER_ALIGN == 0
    for field in ("ranks", "a_blocks", "b_blocks"):
        ours, stored = getattr(packed_adapter.table, field), getattr(image.table, field)
        assert ours.dtype == stored.dtype
        assert np.array_equal(ours, stored)
    buffer = read(image)
    image.verify(buffer)
    assert torch.equal(torch.frombuffer(buffer, dtype=image.dtype).view_as(packed_adapter.pages), packed_adapter.pages)


@pytest.mark.parametrize("at", [0, 20, 60, 200, 5000, -1])
def test_one_wrong_byte_is_found(written: tuple[PackedAdapter, Path], at: int) -> None:
    """In the magic, the digest, the length, the header or the pages."""
    path = written[1]
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with refused("image_damaged"):
        image = AdapterImage.open(path)
        image.verify(read(image))


@pytest.mark.parametrize("size", [0, 10, 4096, -1])
def test_a_cut_image_is_found(written: tuple[PackedAdapter, Path], size: int) -> None:
    """By its length, before the pages are read."""
    path = written[1]
    path.write_bytes(path.read_bytes()[:size])
    with refused("image_damaged"):
        AdapterImage.open(path)


def test_an_image_that_shrinks_while_it_is_read_is_found(written: tuple[PackedAdapter, Path]) -> None:
    """Between the header and the pages."""
    image = AdapterImage.open(written[1])
    written[1].write_bytes(written[1].read_bytes()[:-100])
    with refused("image_damaged"):
        read(image)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the old image stands and no half file is left."""
    image = packed(write_adapter(tmp_path / "adapter"))
    path = tmp_path / "images" / "x.image"
    path.parent.mkdir()
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        image.write_image(path)
    assert [file.name for file in path.parent.iterdir()] == ["x.image"]
    assert path.read_bytes() == b"old"


def test_several_are_stored_together_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are flushed before any is in its place, and the folder after; where one fails, the folder is as it was."""
    disk = DiskTier(tmp_path / "images", pin_memory=False)
    images = [packed(write_adapter(tmp_path / f"a{seed}", AdapterRecipe(seed=seed))) for seed in (1, 2, 3)]
    flushed: list[int] = []
    flush = os.fsync

    def watched(handle: int) -> None:
        assert not list(disk.folder.glob("[!.]*.image")) or len(flushed) == 3
        if len(flushed) == limit:
            raise OSError(28, "No space left on device")
        flushed.append(handle)
        flush(handle)

    monkeypatch.setattr("os.fsync", watched)
    limit = 2
    with pytest.raises(OSError, match="No space"):
        disk.write_all(images)
    assert list(disk.folder.iterdir()) == []
    flushed.clear()
    limit = 9
    disk.write_all([*images, images[0]])
    assert len(flushed) == 4
    for image in images:
        found = disk.open(image.id)
        found.verify(disk.read(found).pages.view(-1).numpy().data)
    assert len(list(disk.folder.iterdir())) == 3
