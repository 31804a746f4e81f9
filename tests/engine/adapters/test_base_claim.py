"""A32, A33, A34: a digest proves the base, a name only hints, and a quantised base needs a word."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.report import Scores
from tests.engine.adapters.bench import DIGEST, base_of, edit_config, parse, refused
from tests.tiny import AdapterRecipe, write_adapter, write_json

NAMES = [
    "tiny-chat",
    "/home/user/x/tiny-2/",
    "C:\\m\\tiny-3",
    "/data/ein Ordner/größe/模型",
    "../../etc/passwd",
    "",
    "\x1b[2J<img src=x onerror=alert(1)>",
    "\ud800/\n2026 INFO granted",
]


def recorded(folder: Path, digest: str = DIGEST) -> Path:
    """A healthy adapter with a training record that names its base's digest."""
    write_json(write_adapter(folder, AdapterRecipe(base_name="org/quite-another-bnb-4bit")) / "training.json", {"base_digest": digest})
    return folder


def test_the_same_digest_proves_the_base_under_any_name(tmp_path: Path) -> None:
    """A32: the base at another path, under another name."""
    for name in ("tiny", "copy-of-tiny", "/srv/link"):
        parsed = parse(recorded(tmp_path / name.replace("/", "_")), base_of(name=name))
        assert (parsed.base_proof, parsed.warnings) == ("recorded", ())


def test_another_digest_is_refused_with_both(tmp_path: Path) -> None:
    """A32: same shapes, another revision."""
    with refused("base_mismatch", param="training.json:base_digest", expected=DIGEST, found="e" * 64):
        parse(recorded(tmp_path, "e" * 64))


def test_an_operator_may_declare_another_digest_compatible(tmp_path: Path) -> None:
    """A32: with a trace of both digests."""
    parsed = parse(recorded(tmp_path, "e" * 64), compatible_base=True)
    assert parsed.base_proof == "declared"
    assert any("e" * 64 in warning and DIGEST in warning for warning in parsed.warnings)


def test_a_pinned_revision_is_told(tmp_path: Path) -> None:
    """A32: a plain folder's revision cannot be proven here, so the operator reads it; a recorded digest needs no such word."""
    folder = edit_config(write_adapter(tmp_path / "plain"), revision="49e3418f")
    assert any("49e3418f" in warning for warning in parse(folder).warnings)
    assert parse(edit_config(recorded(tmp_path / "recorded"), revision="49e3418f")).warnings == ()


@pytest.mark.parametrize("name", ["tiny", "org/tiny", "/home/user/x/tiny/", "C:\\m\\tiny", "Tiny"])
def test_the_base_under_its_own_name_is_declared(tmp_path: Path, name: str) -> None:
    """A33: the last part of a hub name or path."""
    parsed = parse(write_adapter(tmp_path, AdapterRecipe(base_name=name)))
    assert (parsed.base_proof, parsed.warnings) == ("declared", ())


@pytest.mark.parametrize("name", NAMES)
def test_another_name_is_only_told(tmp_path: Path, name: str) -> None:
    """A33: no verdict hangs on a name; it is shown on one line, and never opened as a path."""
    folder = write_adapter(tmp_path, AdapterRecipe(base_name=name))
    parsed = parse(folder)
    assert parsed.base_proof == "declared"
    assert len(parsed.warnings) == 1
    assert parsed.warnings[0].isprintable()
    assert parsed.base_name.isprintable()


OPENED: list[str] = []
WATCHING: list[bool] = []


def _note(event: str, args: tuple[object, ...]) -> None:
    if WATCHING and event in {"open", "os.listdir", "os.scandir", "import"}:
        OPENED.append(os.fsdecode(args[0]) if isinstance(args[0], str | bytes | Path) else repr(args[0]))


def test_only_known_files_of_the_folder_are_opened(tmp_path: Path) -> None:
    """A33, D03: neither a path in the config nor code beside the weights is touched (seen by an audit hook)."""
    folder = write_adapter(tmp_path, AdapterRecipe(base_name="/etc/passwd"))
    edit_config(folder, auto_mapping={"base_model_class": "Evil", "parent_library": "evil_module"})
    for name in ("evil_module.py", "modeling.py", "notes.txt", "optimizer.pt", "training_args.bin"):
        (folder / name).write_text("raise SystemExit('imported')")
    parse(folder)
    sys.addaudithook(_note)
    WATCHING.append(True)
    try:
        parse(folder)
    finally:
        WATCHING.clear()
    assert {Path(name).name for name in OPENED if name.startswith("/")} == {folder.name, "adapter_config.json", "adapter_model.safetensors"}
    assert not [name for name in OPENED if "evil" in name]


@pytest.mark.parametrize(
    "name",
    [
        "unsloth/llama-3.2-3b-instruct-unsloth-bnb-4bit",
        "x/tiny-4bit",
        "y/tiny-GPTQ-Int4",
        "z/tiny-AWQ",
        "tiny.gguf",
        "m/tiny-8bit/",
        "tiny-FP8-dynamic",
    ],
)
def test_a_quantised_base_needs_a_declaration(tmp_path: Path, name: str) -> None:
    """A34: refused until somebody says that the two are compatible; then told that it was trained on a quantised copy."""
    folder = write_adapter(tmp_path, AdapterRecipe(base_name=name))
    with refused("base_undeclared", param="base_model_name_or_path", found=name):
        parse(folder)
    parsed = parse(folder, compatible_base=True)
    assert parsed.base_proof == "declared"
    assert any("quantised" in warning for warning in parsed.warnings)


@pytest.mark.parametrize("name", ["tiny-8b", "llama-4bitter", "tiny-int", "gptqish/tiny", "awqward"])
def test_names_that_only_look_so_are_not_quantised(tmp_path: Path, name: str) -> None:
    """A33, A34: parts of words do not count, nor does the owner."""
    assert parse(write_adapter(tmp_path, AdapterRecipe(base_name=name))).base_proof == "declared"


@pytest.mark.parametrize("text", ["[]", "not json", '{"base_digest": 7}', '{"base_digest": "a", "base_digest": "b"}'])
def test_a_training_record_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    """A proof in doubt is no proof."""
    (write_adapter(tmp_path) / "training.json").write_text(text)
    with refused("config_invalid"):
        parse(tmp_path)


def test_a_synthetic_adapter_says_so(tmp_path: Path) -> None:
    """The record of a generated adapter marks it."""
    write_json(write_adapter(tmp_path) / "training.json", {"synthetic": True})
    assert parse(tmp_path).synthetic


def test_scores_come_from_the_record(tmp_path: Path) -> None:
    """What training measured is read whole; a record without scores has none."""
    record = {"scores": {"base": 0.2, "adapter": 0.9}, "metric": "exact", "heldout_rows": 30, "heldout_digest": "h"}
    write_json(write_adapter(tmp_path) / "training.json", record)
    assert parse(tmp_path).scores == Scores(adapter=0.9, base=0.2, metric="exact", rows=30, rows_digest="h")
    write_json(tmp_path / "training.json", record | {"scores": None})
    assert parse(tmp_path).scores is None


@pytest.mark.parametrize("scores", [{"adapter": 1.1}, {"adapter": "good"}, {"base": 0.1}, [0.5], {"adapter": True}])
def test_scores_that_are_none_are_refused(tmp_path: Path, scores: object) -> None:
    """A share lies between 0 and 1, and a field of another kind is named."""
    write_json(write_adapter(tmp_path) / "training.json", {"scores": scores})
    with refused("config_invalid"):
        parse(tmp_path)
