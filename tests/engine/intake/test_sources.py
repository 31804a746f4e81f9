"""What comes from elsewhere: only known files, only from where it is allowed, never more than the limit."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.adapters.folder import CONFIG, WEIGHTS
from engine.errors import AdapterRefused, InvalidRequest, LoradeckError, SourceNotAllowed
from engine.intake.sources import Found, Sources
from engine.settings import Settings
from tests.engine.intake.stores import Answer, http_store, s3_store

Make = Callable[..., Sources]
FILES = {CONFIG: b"{}", WEIGHTS: b"w" * 5000}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Sources with an allow-list of their own."""

    def build(*allowed: str, **options: object) -> Sources:
        return Sources(Settings(data=tmp_path / "data", source_allow=allowed, **options))  # type: ignore[arg-type]

    return build


def taken(sources: Sources, source: str, **options: str) -> dict[str, bytes]:
    """The files as they lie for the parser."""
    with sources.opened(source, **options) as folder:
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(sources: Sources, source: str, **options: str) -> str:
    """The code of the refusal; nothing may be left in the staging folder."""
    with pytest.raises(LoradeckError) as caught:
        taken(sources, source, **options)
    assert not list(sources.staging.folder.glob("*"))
    return caught.value.code


def served(prefix: str, files: dict[str, bytes]) -> dict[str, Answer]:
    """As a plain server has them."""
    return {f"/{prefix}/{name}": Answer(body=body) for name, body in files.items()}


def test_http_brings_known_files_only(make: Make) -> None:
    """The two that must be there, the two that may be; nothing else is asked for, and nothing stays."""
    with http_store(served("a/b", FILES | {"README.md": b"x", "training.json": b"{}"})) as store:
        sources = make(f"http://{store.host}/a")
        assert taken(sources, f"http://{store.host}/a/b/") == FILES | {"training.json": b"{}"}
        assert sorted(store.asked) == [f"/a/b/{name}" for name in ("adapter_config.json", WEIGHTS, "added_tokens.json", "training.json")]
    assert not list(sources.staging.folder.glob("*"))


def test_http_redirects_are_not_followed(make: Make) -> None:
    """Not even to an allowed place: the refusal says what happened, and the target is never asked."""
    with http_store({}) as store:
        store.answers = served("a", FILES) | {f"/a/{CONFIG}": Answer(status=302, headers={"Location": f"http://{store.host}/secret"})}
        store.answers["/secret"] = Answer(body=b"{}")
        assert refused(make(f"http://{store.host}/a"), f"http://{store.host}/a") == "source_unreadable"
        assert "/secret" not in store.asked


@pytest.mark.parametrize("status", [401, 403, 500, 503, 206])
def test_http_other_answers(make: Make, status: int) -> None:
    """Anything but 200 is no file."""
    with http_store({f"/a/{CONFIG}": Answer(body=b"{}", status=status)}) as store:
        assert refused(make(f"http://{store.host}/a"), f"http://{store.host}/a") == "source_unreadable"


def test_http_missing_weights(make: Make) -> None:
    """A file that must be there and is not."""
    with http_store(served("a", {CONFIG: b"{}"})) as store:
        assert refused(make(f"http://{store.host}/a"), f"http://{store.host}/a") == "source_absent"


def test_http_too_large_is_cut_off(make: Make) -> None:
    """By count as it comes, whatever length is announced; the half file goes."""
    with http_store(served("a", {CONFIG: b"{}", WEIGHTS: bytes(3_000_000)})) as store:
        sources = make(f"http://{store.host}/a", max_adapter=1_000_000)
        assert refused(sources, f"http://{store.host}/a") == "file_too_large"


def test_http_compressed_answers_are_refused(make: Make) -> None:
    """A bomb would unpack while it is read."""
    bomb = Answer(body=gzip.compress(bytes(10_000_000)), headers={"Content-Encoding": "gzip"})
    with http_store(served("a", {CONFIG: b"{}"}) | {f"/a/{WEIGHTS}": bomb}) as store:
        assert refused(make(f"http://{store.host}/a"), f"http://{store.host}/a") == "source_unreadable"


def test_an_allowed_name_may_not_lead_inside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of the outside that resolves to this machine is not connected to; the address itself may be allowed."""
    with http_store(served("a", FILES)) as store:
        port = int(store.host.rpartition(":")[2])
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))])
        assert refused(make(f"http://models.example.com:{port}/a"), f"http://models.example.com:{port}/a") == "source_unreadable"
        assert store.asked == []
        assert taken(make(f"http://localhost:{port}/a"), f"http://localhost:{port}/a") == FILES


def test_nobody_listens(make: Make, free_port: int) -> None:
    """A clear refusal, not a fault of ours."""
    assert refused(make(f"http://127.0.0.1:{free_port}/a"), f"http://127.0.0.1:{free_port}/a") == "source_unreadable"


def test_outside_the_list_nothing_is_asked(make: Make) -> None:
    """Refused before a connection is made."""
    with http_store(served("a", FILES)) as store:
        sources = make(f"http://{store.host}/a")
        for source in (f"http://{store.host}/ab", f"http://{store.host}/a/../b"):
            with pytest.raises(SourceNotAllowed):
                taken(sources, source)
        assert store.asked == []


def test_an_index_page_is_scanned(make: Make) -> None:
    """Links that lead one level down and stay there; the rest of the page is not followed."""
    page = (
        b'<a href="../">up</a><a href="x/">x</a><a href="/b/">b</a><a href="http://127.0.0.1:1/">far</a><a href="n.txt">n</a><a href="y/">'
    )
    leaf = Answer(body=f'<a href="{CONFIG}">c</a>'.encode())
    with http_store({"/a/": Answer(body=page), "/a/x/": leaf, "/a/y/": Answer(body=b'<a href="z/">'), "/a/y/z/": leaf}) as store:
        at = f"http://{store.host}/a"
        assert list(make(at).scan(at)) == [Found(name="x", source=f"{at}/x"), Found(name="y/z", source=f"{at}/y/z")]


def test_s3_brings_and_scans(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing and reading through s3fs, against the few calls of S3 it makes."""
    files = {f"team/{folder}/{name}": body for folder in ("one", "two/deep") for name, body in FILES.items()}
    with s3_store("bucket", files | {"team/pickled/adapter_model.bin": b"x", f"team/pickled/{CONFIG}": b"{}"}) as store:
        for name, value in {
            "ENDPOINT_URL": f"http://{store.host}",
            "ACCESS_KEY_ID": "k",
            "SECRET_ACCESS_KEY": "s",
            "REGION": "eu-x-1",
        }.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        sources = make("s3://bucket/team")
        assert [(found.name, found.source) for found in sources.scan("s3://bucket/team")] == [
            ("one", "s3://bucket/team/one"),
            ("pickled", "s3://bucket/team/pickled"),
            ("two/deep", "s3://bucket/team/two/deep"),
        ]
        assert taken(sources, "s3://bucket/team/one") == FILES
        assert refused(sources, "s3://bucket/team/pickled") == "pickle_refused"
        assert not any("adapter_model.bin" in path for path in store.asked)
        assert refused(sources, "s3://bucket/team/none") in {"source_absent", "not_peft"}


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("hf", "huggingface_hub")])
def test_a_missing_library_is_named(make: Make, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str) -> None:
    """What to install, as a typed refusal."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidRequest, match=f"pip install {package}") as caught:
        taken(make(f"{scheme}://a/b"), f"{scheme}://a/b")
    assert caught.value.code == "source_unsupported"


def test_a_hub_out_of_reach(make: Make) -> None:
    """The tests run without network: the refusal is typed."""
    assert refused(make("hf://acme/pets"), "hf://acme/pets@main/x") in {"source_unreadable", "source_absent"}


def test_an_announced_digest_is_checked(make: Make, tmp_path: Path) -> None:
    """Of the weights, for a folder here as for a file fetched."""
    folder = tmp_path / "data/here"
    folder.mkdir(parents=True)
    for name, body in FILES.items():
        (folder / name).write_bytes(body)
    digest = hashlib.sha256(FILES[WEIGHTS]).hexdigest()
    assert taken(make(), str(folder), sha256=digest.upper()) == FILES
    assert refused(make(), str(folder), sha256="0" * 64) == "sha256_mismatch"


def test_a_zip_in_an_allowed_folder(make: Make, tmp_path: Path) -> None:
    """One adapter in it is unpacked and goes again; two are a question."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data/x.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, body in FILES.items():
            made.writestr(f"pets/{name}", body)
    assert taken(make(), str(path)) == FILES
    with zipfile.ZipFile(path, "a") as made:
        made.writestr(f"more/{CONFIG}", "{}")
    assert refused(make(), str(path)) == "archive_invalid"


def test_a_folder_is_scanned(make: Make, tmp_path: Path) -> None:
    """Four levels deep, without following links, and not below an adapter."""
    data = tmp_path / "data"
    for path in ("a", "b/c", "b/c/inner", "1/2/3/4", "1/2/3/4/5"):
        (data / path).mkdir(parents=True, exist_ok=True)
    for path in ("a", "b/c", "b/c/inner", "1/2/3/4/5"):
        (data / path / CONFIG).touch()
    (data / "link").symlink_to(data / "a")
    assert [found.name for found in make().scan(str(data))] == ["a", "b/c"]
    assert [found.name for found in make().scan(str(data / "a"))] == [""]
    with pytest.raises(AdapterRefused):
        list(make().scan(str(data / "none")))


def test_what_others_are_bringing_is_no_source(make: Make, tmp_path: Path) -> None:
    """Staging lies in the data folder and can neither be scanned nor named, by a link or another spelling either, also while it is full."""
    sources, data = make(), tmp_path / "data"
    with sources.staging.room() as room:
        for name, body in FILES.items():
            (room / name).write_bytes(body)
        (data / "sent.zip").symlink_to(sources.staging.folder / "sent.zip")
        (data / "link").symlink_to(room)
        assert list(sources.scan(str(data))) == []
        spellings = (room, sources.staging.folder, data / "link", data / "sent.zip", data / "x" / ".." / "staging" / room.name)
        for path in (*spellings, room / "a.csv"):
            for look in (lambda path=path: taken(sources, str(path)), lambda path=path: list(sources.scan(str(path)))):  # type: ignore[misc]
                with pytest.raises(SourceNotAllowed):
                    look()
        with pytest.raises(SourceNotAllowed):
            sources.read_text(str(room / "a.csv"))
