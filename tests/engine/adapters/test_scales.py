"""A01, A02, A19, A20: the scale and the rank of every module are the ones PEFT would use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.errors import AdapterRefused
from tests import oracle
from tests.engine.adapters.bench import MAX_RANK, assert_served_as, edit_config, edit_tensors, packed, parse, refused, served_model
from tests.tiny import MODULES, AdapterRecipe, write_adapter

Q0 = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(("rslora", "scale"), [(False, 2.0), (True, 8.0)])
def test_rslora_scales_by_the_root_of_the_rank(tiny_base: Path, tmp_path: Path, rslora: bool, scale: float) -> None:  # noqa: FBT001 - a case
    """A01: r 16, alpha 32 is 2.0 plain and 8.0 rank-stabilised, and both answer as PEFT does."""
    folder = write_adapter(tmp_path, AdapterRecipe(rank=16, alpha=32, rslora=rslora))
    assert {matrix.scale for matrix in parse(folder).matrices} == {scale}
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))


def test_rslora_and_plain_are_two_versions(tmp_path: Path) -> None:
    """The same tensors under another scale are another adapter."""
    plain = parse(write_adapter(tmp_path / "plain", AdapterRecipe(rank=16)))
    stabilised = parse(write_adapter(tmp_path / "rslora", AdapterRecipe(rank=16, rslora=True)))
    assert plain.id != stabilised.id


def test_patterns_give_each_module_its_rank_and_scale(tiny_base: Path, tmp_path: Path) -> None:
    """A02: layer 0's q has r 16 and alpha 64 (scale 4.0), the rest r 4 and alpha 8 (2.0)."""
    recipe = AdapterRecipe(rank=4, alpha=8, rank_pattern={Q0: 16}, alpha_pattern={Q0: 64})
    folder = write_adapter(tmp_path, recipe)
    scales = {(matrix.layer, matrix.module): (matrix.rank, matrix.scale) for matrix in parse(folder).matrices}
    assert scales == {(0, 0): (16, 4.0), (0, 2): (4, 2.0), (1, 0): (4, 2.0), (1, 2): (4, 2.0)}
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))


@pytest.mark.parametrize(
    "key", [r".*\.0\.self_attn\.q_proj", r"layers\.(0)\.self_attn\.q_proj", "^model.layers.0.self_attn.q_proj", r"0\.[a-z_]+\.q_proj"]
)
def test_a_pattern_may_be_a_regular_expression(tiny_base: Path, tmp_path: Path, key: str) -> None:
    """A02: PEFT matches pattern keys as regular expressions; so do we."""
    folder = write_adapter(tmp_path, AdapterRecipe(rank=4, alpha=8, rank_pattern={"0.self_attn.q_proj": 16}))
    edit_config(folder, rank_pattern={key: 16}, alpha_pattern={key: 64})
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))


@pytest.mark.parametrize("key", ["(a+)+q_proj", "(.*)*", ".*" * 8 + "q_proj", "(?=x)q_proj", r"(q)\1", "(.|.)" * 30, "(" * 200, "[" * 3])
def test_an_evil_pattern_is_refused_at_once(tmp_path: Path, key: str) -> None:
    """A11: a pattern that could take exponential time is never run."""
    folder = edit_config(write_adapter(tmp_path), alpha_pattern={key: 8})
    start_s = time.perf_counter()
    with pytest.raises(AdapterRefused, match="alpha_pattern") as caught:
        parse(folder)
    assert caught.value.code in {"pattern_too_complex", "config_invalid"}
    assert time.perf_counter() - start_s < 1


def test_a_pattern_that_names_nothing_is_told(tmp_path: Path) -> None:
    """A mistyped pattern key leaves the default scale, and the operator reads so."""
    folder = edit_config(write_adapter(tmp_path), alpha_pattern={"qq_proj": 64})
    assert any("alpha_pattern names qq_proj" in warning for warning in parse(folder).warnings)


def test_a_rank_that_is_not_the_tensors_is_refused(tmp_path: Path) -> None:
    """A19: r 8 over rank-4 tensors names the tensor and both numbers."""
    folder = edit_config(write_adapter(tmp_path, AdapterRecipe(rank=4)), r=8)
    with refused("rank_mismatch", param=f"base_model.model.{Q0}.lora_A.weight", expected=8, found=4):
        parse(folder)


def test_a_and_b_of_two_ranks_are_refused(tmp_path: Path) -> None:
    """A19: A of rank 4 beside B of rank 2."""
    b = f"base_model.model.{Q0}.lora_B.weight"
    folder = edit_tensors(write_adapter(tmp_path, AdapterRecipe(rank=4)), lambda tensors: tensors | {b: tensors[b][:, :2].copy()})
    with refused("rank_mismatch", param=b, expected=4, found=2):
        parse(folder)


@pytest.mark.parametrize("rank", [0, -1, "8", True, 8.0, None, [8], 10**400])
def test_r_must_be_a_whole_number(tmp_path: Path, rank: object) -> None:
    """A19: no scale is ever computed from a wrong r."""
    folder = edit_config(write_adapter(tmp_path), r=rank)
    with refused("config_invalid", param="r"):
        parse(folder)


@pytest.mark.parametrize("alpha", ["16", True, None, [16], 10**400])
def test_alpha_must_be_a_number(tmp_path: Path, alpha: object) -> None:
    """Likewise alpha."""
    folder = edit_config(write_adapter(tmp_path), lora_alpha=alpha)
    with refused("config_invalid", param="lora_alpha"):
        parse(folder)


def test_alpha_zero_loads_and_says_that_it_does_nothing(tmp_path: Path) -> None:
    """A19: a no-op is accepted with a warning, and marked so that the probe expects it."""
    parsed = parse(write_adapter(tmp_path, AdapterRecipe(alpha=0)))
    assert parsed.no_effect
    assert any("changes nothing" in warning for warning in parsed.warnings)


@pytest.mark.parametrize("rank", [1, 3, 5, 8, 12, 48, 64])
def test_any_rank_up_to_the_cap(tiny_base: Path, tmp_path: Path, rank: int) -> None:
    """A20: ranks that are no power of two, or above a block, come out of their pages as PEFT applies them."""
    folder = write_adapter(tmp_path, AdapterRecipe(rank=rank, alpha=rank, modules=MODULES, std=0.15))
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))


def test_a_rank_above_the_cap_is_refused(tmp_path: Path) -> None:
    """A20: 65 against a cap of 64, with the cap."""
    folder = write_adapter(tmp_path, AdapterRecipe(rank=MAX_RANK + 1))
    with refused("rank_too_large", found=65, expected="at most 64"):
        parse(folder)
