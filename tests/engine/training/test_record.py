"""What a run leaves: a folder that registers, whose record is tied to base and weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from engine.adapters.peft import parse_adapter
from engine.assemble import Base
from engine.errors import AdapterRefused
from engine.training.__main__ import main
from engine.training.evaluate import main as evaluate
from engine.training.record import read_record
from tests import tiny


@pytest.fixture(scope="module")
def trained(tiny_base: Path, chats_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run by the command line."""
    folder = tmp_path_factory.mktemp("run")
    recipe = folder / "run.toml"
    recipe.write_text(f'name = "t"\ndata = "{chats_file}"\nrank = 4\nsteps = 30\nbatch = 4\nlearning_rate = 0.02\nanswer_tokens = 8\n')
    data = folder / "data"
    assert main([str(recipe), "--base", str(tiny_base), "--data", str(data), "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_the_record(trained: Path, base: Base) -> None:
    """Base, recipe, data, losses, scores, versions; and nothing left of the run itself."""
    record = read_record(trained)
    assert (record["base_digest"], record["rank"], record["modules"], record["steps"]) == (base.spec.digest, 4, ["q_proj", "v_proj"], 30)
    assert {"recipe", "recipe_digest", "data_digest", "heldout_digest", "versions", "seconds", "trained_unix"} <= record.keys()
    assert record["scores"].keys() == {"base", "adapter"}  # type: ignore[union-attr]
    assert record["heldout_loss"] < record["base_heldout_loss"]  # type: ignore[operator]
    assert sorted(path.name for path in trained.iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors", "evals.jsonl", "training.json",
    ]  # fmt: skip


def test_it_is_proven_for_its_base(trained: Path, base: Base) -> None:
    """By the recorded digest, as stored in half precision."""
    parsed = parse_adapter(trained, base.spec, max_rank=64, base_digest=base.spec.digest)
    assert (parsed.base_proof, parsed.digest, parsed.no_effect) == ("recorded", read_record(trained)["adapter_digest"], False)
    assert {str(each.dtype) for each in load_file(trained / "adapter_model.safetensors").values()} == {"torch.float16"}


def test_another_base_is_refused_with_both_digests(trained: Path, base: Base) -> None:
    """Both stand in the message."""
    with pytest.raises(AdapterRefused) as refused:
        parse_adapter(trained, base.spec, max_rank=64, base_digest="f" * 64)
    assert refused.value.code == "base_mismatch"
    assert base.spec.digest in refused.value.message
    assert "f" * 64 in refused.value.message


def test_a_copied_record_is_caught(trained: Path, base: Base, tmp_path: Path) -> None:
    """On other weights of the same shape, it vouches for nothing."""
    other = tiny.write_adapter(tmp_path / "other", tiny.AdapterRecipe(seed=5, rank=4))
    shutil.copy(trained / "training.json", other / "training.json")
    with pytest.raises(AdapterRefused) as refused:
        parse_adapter(other, base.spec, max_rank=64, base_digest=base.spec.digest)
    assert (refused.value.code, refused.value.param) == ("record_mismatch", "training.json:adapter_digest")


def test_training_again_gives_the_same_digest(trained: Path, tiny_base: Path, chats_file: Path, tmp_path: Path) -> None:
    """From the recipe in the record."""
    said = read_record(trained)["recipe"]
    recipe = tmp_path / "again.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items() if value is not None]  # type: ignore[union-attr]
    recipe.write_text("\n".join([f'data = "{chats_file}"', *lines]))
    assert main([str(recipe), "--base", str(tiny_base), "--data", str(tmp_path / "d"), "--out", str(tmp_path / "out")]) == 0
    assert read_record(tmp_path / "out")["adapter_digest"] == read_record(trained)["adapter_digest"]


def test_the_set_that_it_carries_can_be_run_again(
    trained: Path, tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same scores as in the record, in JSON on the last line."""
    assert evaluate([str(trained), "--base", str(tiny_base), "--data", str(tmp_path), "--json"]) == 0
    [marks] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"base": marks["base_score"], "adapter": marks["adapter_score"]} == read_record(trained)["scores"]
    assert marks["adapter"] == "out"


def test_a_folder_without_a_set_is_refused(tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what is missing, and status 2."""
    folder = tiny.write_adapter(tmp_path / "plain", tiny.AdapterRecipe(seed=5))
    assert evaluate([str(folder), "--base", str(tiny_base), "--data", str(tmp_path / "d")]) == 2
    assert "carries no evaluation" in capsys.readouterr().err


def test_a_bad_recipe_ends_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback."""
    (tmp_path / "run.toml").write_text('name = "t"\ndata = "x"\nrank = 0\n')
    assert main([str(tmp_path / "run.toml")]) == 2
    assert "'rank'" in capsys.readouterr().err
