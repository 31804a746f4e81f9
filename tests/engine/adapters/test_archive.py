"""What is archived comes back byte for byte, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from engine.adapters.archive import Archive
from engine.errors import AdapterRefused


def test_a_file_comes_back_by_its_digest(tmp_path: Path) -> None:
    """Kept twice it lies there once, under its sha256, and the copy that comes back is the same."""
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 9000)
    archive = Archive(tmp_path / "archive")
    digest = archive.keep(source)
    assert digest == archive.keep(source) == hashlib.sha256(source.read_bytes()).hexdigest()
    archive.verify(digest)
    archive.fetch(digest, tmp_path / "new" / "back")
    assert (tmp_path / "new" / "back").read_bytes() == source.read_bytes()
    assert [path.name for path in (tmp_path / "archive").rglob("*") if path.is_file()] == [digest[2:]]


@pytest.mark.parametrize("damage", ["flip", "short", "missing"])
def test_damage_is_found_and_nothing_is_written(tmp_path: Path, damage: str) -> None:
    """A byte changed, cut off, or the file gone: refused by name, the target stays as it was; keeping it again heals it."""
    archive = Archive(tmp_path / "archive")
    digest = archive.keep_bytes(b"weights" * 1000)
    path = archive.path(digest)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + (b"x" if damage == "flip" else b""))
    target = tmp_path / "target"
    target.write_bytes(b"old")
    for use in (archive.verify, archive.read, lambda digest: archive.fetch(digest, target)):
        with pytest.raises(AdapterRefused) as caught:
            use(digest)
        assert caught.value.code == ("archive_missing" if damage == "missing" else "archive_damaged")
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "target"]
    assert archive.keep_bytes(b"weights" * 1000) == digest
    assert archive.read(digest) == b"weights" * 1000
