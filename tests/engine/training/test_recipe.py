"""Recipes and chats: what is wrong is named by field or line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.assemble import Base
from engine.errors import TrainingRefused
from engine.training.chats import Encoder, chats_digest, hold_back, read_chats
from engine.training.recipe import make_recipe, read_recipe

GOOD = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}


def chats(folder: Path, *rows: object) -> Path:
    """A JSONL file; texts are written as they are."""
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", 0),
        ("rank", "eight"),
        ("modules", ["q_proj", "w_proj"]),
        ("modules", []),
        ("modules", ["q_proj", "q_proj"]),
        ("learning_rate", -1),
        ("steps", 0),
        ("schedule", "sometimes"),
        ("name", "../up"),
        ("metric", "vibes"),
        ("heldout_share", 0.9),
        ("learning_rat", 0.1),
    ],
)
def test_a_field_is_named(field: str, value: object) -> None:
    """Out of range, of the wrong kind, or unknown."""
    with pytest.raises(TrainingRefused) as refused:
        make_recipe({"name": "a", "data": "x.jsonl", field: value})
    assert refused.value.param is not None
    assert refused.value.param.startswith(field)
    assert field in refused.value.message


def test_a_recipe_file(tmp_path: Path) -> None:
    """Paths are relative to it; alpha is twice the rank unless it says so; modules come in the base's order."""
    (tmp_path / "run.toml").write_text('name = "a"\ndata = "train.jsonl"\nrank = 16\nmodules = ["v_proj", "q_proj"]\n')
    recipe = read_recipe(tmp_path / "run.toml")
    assert (recipe.data, recipe.scale, recipe.modules) == (tmp_path / "train.jsonl", 2.0, ("q_proj", "v_proj"))
    assert read_recipe(tmp_path / "run.toml", name="b").name == "b"


def test_rslora_divides_by_the_root() -> None:
    """alpha over √rank."""
    assert make_recipe({"name": "a", "data": "x", "rank": 16, "alpha": 8, "rslora": True}).scale == 2.0


def test_no_file_and_no_toml(tmp_path: Path) -> None:
    """Each is said."""
    with pytest.raises(TrainingRefused, match="cannot be read"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("rank = = 8")
    with pytest.raises(TrainingRefused, match="no TOML"):
        read_recipe(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("row", "param"),
    [
        ("{oops", "rows.jsonl:2"),
        ([1], "rows.jsonl:2:messages"),
        ({"messages": []}, "rows.jsonl:2:messages"),
        ({"messages": [GOOD["messages"][0], {"role": "robot", "content": "x"}]}, "rows.jsonl:2:messages[1]"),
        ({"messages": [GOOD["messages"][0], {"role": "assistant", "content": 5}]}, "rows.jsonl:2:messages[1]"),
        ({"messages": [GOOD["messages"][1], GOOD["messages"][0]]}, "rows.jsonl:2:messages[1]"),
        ({"messages": [GOOD["messages"][0], {"role": "assistant", "content": " "}]}, "rows.jsonl:2:messages[1]"),
        ({**GOOD, "expect": "ho"}, "rows.jsonl:2:expect"),
    ],
)
def test_a_line_is_named(tmp_path: Path, row: object, param: str) -> None:
    """The line and what in it is at fault."""
    with pytest.raises(TrainingRefused) as refused:
        read_chats(chats(tmp_path, GOOD, row))
    assert refused.value.param == param


def test_empty_missing_and_not_text(tmp_path: Path) -> None:
    """Files that hold no chats."""
    with pytest.raises(TrainingRefused, match="holds no chats"):
        read_chats(chats(tmp_path, "", "  "))
    with pytest.raises(TrainingRefused, match="cannot be read"):
        read_chats(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes("é".encode("latin-1"))
    with pytest.raises(TrainingRefused, match="not UTF-8"):
        read_chats(tmp_path / "latin.jsonl")


def test_what_is_held_back(tmp_path: Path) -> None:
    """Disjoint, complete, the same for the same seed, and never everything."""
    rows = read_chats(chats(tmp_path, *({"messages": [{"role": "user", "content": str(n)}, GOOD["messages"][1]]} for n in range(30))))
    train, heldout = hold_back(rows, 0.1, seed=1)
    assert (len(train), len(heldout)) == (27, 3)
    assert sorted(map(repr, (*train, *heldout))) == sorted(map(repr, rows))
    assert hold_back(rows, 0.1, seed=1)[1] == heldout
    assert hold_back(rows[:2], 0.5, seed=1)[0]
    assert hold_back(rows, 0.0, seed=1)[1] == ()


def test_a_digest_is_of_what_is_said(tmp_path: Path) -> None:
    """Spacing does not count, words do."""
    one = chats_digest(read_chats(chats(tmp_path, GOOD)))
    assert chats_digest(read_chats(chats(tmp_path, json.dumps(GOOD, indent=None, separators=(" ,", " : "))))) == one
    other = {"messages": [GOOD["messages"][0], {"role": "assistant", "content": "hO"}]}
    assert chats_digest(read_chats(chats(tmp_path, other))) != one


def test_only_the_answer_is_learned(base: Base, tmp_path: Path) -> None:
    """The prompt is what the API would send; after the answer comes the end token."""
    chat = read_chats(chats(tmp_path, GOOD))[0]
    example = Encoder(base.tokenizer, base.chat_template, max_tokens=99).examples([chat])[0]
    prompt = base.chat_template.render([{"role": "user", "content": "hi"}])
    assert list(example.token_ids[: example.num_prompt]) == base.tokenizer.encode(prompt, add_special_tokens=False)
    assert base.tokenizer.decode(example.token_ids[example.num_prompt : -1]) == "ho"
    assert example.token_ids[-1] in base.tokenizer.eos_ids


def test_a_long_chat_is_refused_by_row(base: Base, tmp_path: Path) -> None:
    """Not cut in silence."""
    long = {"messages": [{"role": "user", "content": "x " * 99}, GOOD["messages"][1]]}
    with pytest.raises(TrainingRefused) as refused:
        Encoder(base.tokenizer, base.chat_template, max_tokens=50).examples(read_chats(chats(tmp_path, GOOD, long)))
    assert (refused.value.code, refused.value.param) == ("data_too_long", "row 2")
