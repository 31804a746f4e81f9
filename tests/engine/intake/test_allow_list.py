"""D04: only what an operator allowed is looked at, and what lies elsewhere cannot be told by words, time or system calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import SourceNotAllowed
from engine.intake.allow_list import AllowList
from engine.intake.place import read_place

ALLOWED = ("https://models.example.com/lora", "s3://bucket/team/a", "hf://acme/pets", "http://127.0.0.1:9000/x")


@pytest.fixture
def roots(tmp_path: Path) -> AllowList:
    """One folder and four prefixes."""
    (tmp_path / "in" / "good").mkdir(parents=True)
    (tmp_path / "out" / "secret").mkdir(parents=True)
    return AllowList((str(tmp_path / "in"), *ALLOWED))


CRAFTED = (
    "/etc", "/etc/nothing-here", "../../x", "a/../../x", "{in}/../out/secret", "{in}/../out/nothing",
    "{in}/good/../../out/secret", "%2e%2e/", "a\\..\\b", "\0", "{in}\0", "x" * 4096, "{in}/" + "x/" * 2000, "", ".",
    "~root/x", "~nobody-at-all/x", "file:///etc/passwd", "file://elsewhere{in}/good", "file://", "file://{in}%00",
    "file://{in}/%2e%2e/out/secret", "{in}x", "{in}/link", "{in}/dangling", "{in}/loop",
)  # fmt: skip


@pytest.mark.parametrize("source", CRAFTED)
def test_crafted_paths_are_refused_in_the_same_words(roots: AllowList, tmp_path: Path, source: str) -> None:
    """Whether the target exists, does not, or cannot be named at all."""
    (tmp_path / "in/link").symlink_to(tmp_path / "out/secret")
    (tmp_path / "in/dangling").symlink_to(tmp_path / "out/nothing")
    (tmp_path / "in/loop").symlink_to("/proc/self/cwd")
    with pytest.raises(SourceNotAllowed) as plain:
        roots.admit("/etc/nothing")
    with pytest.raises(SourceNotAllowed) as caught:
        roots.admit(source.replace("{in}", str(tmp_path / "in")))
    assert (caught.value.message, caught.value.code, caught.value.status) == (plain.value.message, plain.value.code, 403)


@pytest.mark.parametrize("name", ["secret", "nothing"])
def test_the_disk_is_not_asked_about_what_lies_outside(
    roots: AllowList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The same work for what exists as for what does not: none."""
    asked: list[object] = []
    for call in ("lstat", "stat", "readlink", "scandir", "open"):
        monkeypatch.setattr(os, call, lambda *args, **_: asked.append(args))
    with pytest.raises(SourceNotAllowed):
        roots.admit(str(tmp_path / "out" / name))
    monkeypatch.undo()
    assert asked == []


def test_what_lies_inside_is_admitted_by_its_real_path(roots: AllowList, tmp_path: Path) -> None:
    """Dots that stay inside, links that stay inside, URLs of this machine, and names that do not exist yet."""
    good = tmp_path / "in/good"
    (tmp_path / "in/also").symlink_to(good)
    for source in (f"{good}", f"{good}/../good", f"{tmp_path}/in/also", f"file://{good}", f"file://localhost{good}"):
        assert roots.admit(source) == good
    assert roots.admit(f"{tmp_path}/in/later") == tmp_path / "in/later"


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    """An allowed folder is meant wherever it leads, by its name and by its real path."""
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    allowed = AllowList((str(tmp_path / "root"),))
    assert allowed.admit(f"{tmp_path}/root/a") == allowed.admit(f"{tmp_path}/real/a") == tmp_path / "real/a"


@pytest.mark.parametrize(
    "source",
    [
        "https://models.example.com/lora", "https://MODELS.example.com:443/lora/a/", "https://models.example.com/lora/a%20b", "s3://bucket/team/a/x",
        "hf://acme/pets", "hf://acme/pets@0123abc/sub", "http://127.0.0.1:9000/x/y",
    ],
)  # fmt: skip
def test_urls_below_a_prefix_are_admitted(roots: AllowList, source: str) -> None:
    """After their spelling is made one."""
    assert roots.admit(source) == read_place(source)


@pytest.mark.parametrize(
    "source",
    [
        "https://models.example.com/lorax", "https://models.example.com/", "http://models.example.com/lora/a", "https://models.example.com:8443/lora/a",
        "https://models.example.com.evil.net/lora/a", "https://user@models.example.com/lora/a", "https://models.example.com@evil.net/lora/a",
        "https://models.example.com/lora/../x", "https://models.example.com/lora/%2e%2e/x", "https://models.example.com/lora/%252e%252e/x",
        "https://models.example.com/lora/..%2fx", "https://models.example.com/lora/a\\..\\..\\x", "https://models.example.com/lora/a?sig=1",
        "https://models.example.com/lora/a#b", "https://models.example.com/lora//a", "https://models.example.com/lora/%ff",
        "s3://bucket/team/ab", "s3://bucket-2/team/a", "s3://key:secret@bucket/team/a", "hf://acme/pets2", "hf://acme/pets@", "hf://acme",
        "http://127.0.0.1/x", "http://127.0.0.1:9001/x", "http://[::ffff:127.0.0.1]:9000/x", "http://169.254.169.254/latest", "ftp://127.0.0.1/x",
        "gs://bucket/team/a", "memory://x", "HTTPS:/models.example.com/lora", "https://models.example.com:99999/lora", "https://\0/lora",
    ],
)  # fmt: skip
def test_urls_outside_every_prefix_are_refused(roots: AllowList, source: str) -> None:
    """By whole segments, with host, port and scheme; with nothing hidden in the spelling."""
    with pytest.raises(SourceNotAllowed):
        roots.admit(source)


def test_a_prefix_with_a_revision_means_that_revision() -> None:
    """And one without means any."""
    pinned = AllowList(("hf://acme/pets@v1",))
    assert pinned.admit("hf://acme/pets@v1/a")
    for other in ("hf://acme/pets", "hf://acme/pets@v2"):
        with pytest.raises(SourceNotAllowed):
            pinned.admit(other)
