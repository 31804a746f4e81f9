"""D04 and the forms of a folder: what may be opened, and what is said of anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.adapters.bench import parse, refused
from tests.tiny import AdapterRecipe, write_adapter

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


@pytest.mark.parametrize("name", ["missing", "adapter_file", "nul\0byte", "x" * 4096])
def test_what_is_no_folder_is_refused_in_the_same_words(tmp_path: Path, name: str) -> None:
    """D04: missing, a file, a NUL byte, too long: one answer."""
    (tmp_path / "adapter_file").write_text("x")
    with refused("source_unreadable", param="source") as caught:
        parse(tmp_path / name)
    assert caught.value.message == "The source is no folder that can be read."


def test_a_folder_without_a_config_is_no_adapter(tmp_path: Path) -> None:
    """With a hint when the adapter lies one level deeper."""
    with refused("not_peft", param=CONFIG):
        parse(tmp_path)
    write_adapter(tmp_path / "default")
    with refused("not_peft", found="default") as caught:
        parse(tmp_path)
    assert "default" in caught.value.message


def test_a_config_without_weights_is_refused(tmp_path: Path) -> None:
    """Nothing to serve."""
    (write_adapter(tmp_path) / WEIGHTS).unlink()
    with refused("no_weights", param=WEIGHTS):
        parse(tmp_path)


def test_shards_are_refused_as_such(tmp_path: Path) -> None:
    """Several weight files are named, not taken for none."""
    write_adapter(tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "adapter_model-00001-of-00002.safetensors")
    with refused("sharded_weights"):
        parse(tmp_path)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    """D04: the same answer whether or not something is there."""
    folder = write_adapter(tmp_path / "adapter")
    (folder / name).rename(tmp_path / name)
    messages = []
    for target in (tmp_path / name, tmp_path / "nothing-here"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        with refused("outside_folder", param=name) as caught:
            parse(folder)
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


def test_links_within_the_folder_and_to_it_are_followed(tmp_path: Path) -> None:
    """A32: the same adapter through a link to its folder, and through a link inside it."""
    folder = write_adapter(tmp_path / "adapter")
    digest = parse(folder).digest
    (tmp_path / "link").symlink_to(folder)
    assert parse(tmp_path / "link").digest == digest
    (folder / WEIGHTS).rename(folder / "weights")
    (folder / WEIGHTS).symlink_to("weights")
    assert parse(folder).digest == digest


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_what_is_no_regular_file_never_hangs(tmp_path: Path, name: str) -> None:
    """A pipe that nobody writes to, and a folder under a file's name."""
    folder = write_adapter(tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with refused("source_unreadable", param=name):
        parse(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with refused("source_unreadable", param=name):
        parse(folder)


def test_all_zero_b_is_told(tmp_path: Path) -> None:
    """A fresh, untrained adapter is accepted and marked as changing nothing."""
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415 - this test only

    path = write_adapter(tmp_path, AdapterRecipe()) / WEIGHTS
    tensors = load_file(path)
    save_file({key: value * ("lora_A" in key) for key, value in tensors.items()}, path)
    parsed = parse(tmp_path)
    assert parsed.no_effect
    assert any("changes nothing" in warning for warning in parsed.warnings)
