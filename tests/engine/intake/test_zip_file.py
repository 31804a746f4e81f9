"""D14: an archive's list is proven whole before a byte of it is unpacked, and what is unpacked is counted."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from engine.adapters.folder import CONFIG, WEIGHTS
from engine.errors import AdapterRefused
from engine.intake import zip_file
from engine.intake.staging import Staging
from engine.intake.zip_file import Archive


def packed(*names: str, data: bytes = b"x", **extra: bytes) -> io.BytesIO:
    """A zip with these entries, and two files of an adapter unless told otherwise."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(_raw(name), data)
        for name, content in extra.items():
            made.writestr({"config": CONFIG, "weights": WEIGHTS}[name], content)
    return file


def _raw(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = name
    return info


def code_of(file: io.BytesIO) -> str:
    """Why it is refused when it is opened and unpacked."""
    with pytest.raises(AdapterRefused) as caught:
        unpack_all(file)
    return caught.value.code


def unpack_all(file: io.BytesIO) -> None:
    """Every adapter, to nowhere."""
    opened = Archive(file)
    for folder in opened.adapters:
        for _, chunks in opened.unpacked(folder):
            list(chunks)


UNSAFE = (
    "../x", "..\\..\\x", "a/../../x", "a/..", "/etc/x", "//x", "C:/x", "C:x", "a\\b", "CON", "con.txt", "a/NUL.json", "LPT1", "COM¹.x",
    "a//b", "./a", "a./b", "a /b",
    "x" * 300, "a/" * 20 + "x", "a\x01b", "\x7f",
)  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_could_land_elsewhere(name: str) -> None:
    """One such entry beside a good adapter, and nothing of the archive is unpacked."""
    assert code_of(packed(name, config=b"{}", weights=b"x")) == "archive_unsafe"


def test_an_empty_name() -> None:
    """As above; Python's writer has a name at least, so the bytes are patched."""
    raw = packed("Q", config=b"{}", weights=b"x").getvalue().replace(b"Q", b"\0")
    assert code_of(io.BytesIO(raw)) == "archive_unsafe"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices(kind: int) -> None:
    """An entry that would be no plain file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        info = zipfile.ZipInfo(WEIGHTS)
        info.external_attr = (kind | 0o777) << 16
        made.writestr(info, "/etc/passwd")
        made.writestr(CONFIG, "{}")
    assert code_of(file) == "archive_unsafe"


def test_the_same_name_twice() -> None:
    """Which of the two a reader takes is anybody's guess; capitals do not tell names apart everywhere."""
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = packed("a/x", "a/x", config=b"{}", weights=b"x")
    assert code_of(twice) == "archive_unsafe"
    assert code_of(packed("a/x", "A/X", config=b"{}", weights=b"x")) == "archive_unsafe"


def test_encrypted_entries() -> None:
    """There is no password to give."""
    raw = bytearray(packed(config=b"{}", weights=b"x").getvalue())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = raw.find(mark)
        raw[at + offset] |= 1
    assert code_of(io.BytesIO(bytes(raw))) == "archive_unsafe"


def test_other_methods() -> None:
    """Deflate and stored are all that is unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as made:
        made.writestr(CONFIG, "{}")
    assert code_of(file) == "archive_unsafe"


def test_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by the count at its end, before the list is read; and by the list, should the count lie."""
    file = packed(*(f"n{number}" for number in range(20)), config=b"{}", weights=b"x")
    monkeypatch.setattr(zip_file, "MAX_ENTRIES", 10)
    assert code_of(file) == "archive_unsafe"
    raw = file.getvalue()
    lying = raw[:-14] + struct.pack("<HH", 1, 1) + raw[-10:]
    assert code_of(io.BytesIO(lying)) == "archive_unsafe"


def test_zip64_is_not_believed() -> None:
    """Its record could announce a list of any size."""
    raw = packed(config=b"{}", weights=b"x").getvalue()
    locator = b"PK\x06\x07" + bytes(16)
    assert code_of(io.BytesIO(raw[:-22] + locator + raw[-22:])) == "archive_unsafe"


def test_a_bomb_is_cut_off() -> None:
    """Deflate's best is a thousandfold; two hundred are enough to know."""
    bomb = packed(config=b"{}", weights=bytes(64 * 2**20))
    assert len(bomb.getvalue()) < 2**20
    assert code_of(bomb) == "archive_unsafe"


def test_a_size_that_lies(tmp_path: Path) -> None:
    """What comes is counted: past the limit it is cut off, and the half file goes."""
    staging = Staging(tmp_path / "staging", max_weights_bytes=1000)
    with staging.room() as room:
        parts = dict(Archive(packed(config=b"{}", weights=bytes(range(256)) * 40)).unpacked(""))
        staging.keep(parts[CONFIG], room / CONFIG)
        with pytest.raises(AdapterRefused) as caught:
            staging.keep(parts[WEIGHTS], room / WEIGHTS)
        assert caught.value.code == "file_too_large"
        assert [path.name for path in room.iterdir()] == [CONFIG]
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.parametrize("raw", [b"", b"PK", b"not a zip", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + b"\xff" * 18, bytes(70_000)])
def test_no_archive_at_all(raw: bytes) -> None:
    """A clear refusal."""
    assert code_of(io.BytesIO(raw)) in {"archive_invalid", "archive_unsafe", "not_peft"}


def test_a_damaged_entry() -> None:
    """Its checksum is the archive's own."""
    raw = bytearray(packed(config=b"{}", weights=b"0123456789" * 50).getvalue())
    at = raw.find(WEIGHTS.encode()) + len(WEIGHTS)
    raw[at : at + 4] = b"\xff\xff\xff\xff"
    assert code_of(io.BytesIO(bytes(raw))) == "archive_invalid"


def test_pickles_are_refused_by_name() -> None:
    """Nothing is unpacked to know it."""
    assert code_of(packed("adapter_model.bin", config=b"{}")) == "pickle_refused"


def test_several_adapters_with_only_their_known_files() -> None:
    """Folders with a config, whatever lies beside them."""
    file = packed("a/b/" + CONFIG, "a/b/" + WEIGHTS, "a/b/README.md", "c/" + CONFIG, "c/" + WEIGHTS, "d/x.txt", "__MACOSX/c/._" + CONFIG)
    opened = Archive(file)
    assert opened.adapters == ("a/b", "c")
    assert {name: b"".join(chunks) for name, chunks in opened.unpacked("a/b")} == {CONFIG: b"x", WEIGHTS: b"x"}
