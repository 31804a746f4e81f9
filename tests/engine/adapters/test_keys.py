"""A14, A15, A21, A31: where each tensor lands, in every spelling, or why it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import oracle
from tests.engine.adapters.bench import assert_served_as, base_of, edit_config, edit_tensors, packed, parse, refused, served_model
from tests.tiny import MODULES, TINY, AdapterRecipe, Tensors, write_adapter

Q0 = "base_model.model.model.layers.0.self_attn.q_proj"
FULL = "base_model.model."


@pytest.mark.parametrize(
    "spell",
    [
        lambda key: key.replace(".weight", ".default.weight"),
        lambda key: key.replace(".weight", ".myname.weight"),
        lambda key: key.replace(".weight", ".v1.2.weight"),
        lambda key: key.removeprefix(FULL),
        lambda key: key.removeprefix("base_model."),
        lambda key: key.removeprefix(f"{FULL}model."),
        lambda key: key.replace(f"{FULL}model.", FULL),
    ],
    ids=["default", "own name", "name with a dot", "no base_model.model.", "no base_model.", "from layers on", "of the headless model"],
)
def test_other_spellings_are_the_same_version(tmp_path: Path, spell: Callable[[str], str]) -> None:
    """A14: unambiguous spellings are normalised: same digest, so the same pages and logits."""
    plain = parse(write_adapter(tmp_path / "plain"))
    assert parse(write_adapter(tmp_path / "other", AdapterRecipe(spell=spell))).digest == plain.digest


@pytest.mark.parametrize(
    "twin", [f"{Q0}.lora_A.default.weight", "model.layers.0.self_attn.q_proj.lora_A.weight", f"{Q0}.lora_A.other.weight"]
)
def test_two_tensors_for_one_place_are_refused(tmp_path: Path, twin: str) -> None:
    """A14: no guess which of the two counts."""
    folder = edit_tensors(write_adapter(tmp_path), lambda tensors: tensors | {twin: tensors[f"{Q0}.lora_A.weight"] * 2})
    with refused("ambiguous_keys"):
        parse(folder)


def test_two_adapters_in_one_file_are_refused(tmp_path: Path) -> None:
    """A14: names one and two on different modules."""
    recipe = AdapterRecipe(spell=lambda key: key.replace(".weight", ".one.weight" if "q_proj" in key else ".two.weight"))
    with refused("ambiguous_keys"):
        parse(write_adapter(tmp_path, recipe))


@pytest.mark.parametrize("prefix", [f"{FULL}language_model.model.", f"{FULL}model.language_model.", f"{FULL}transformer.", "x."])
def test_foreign_keys_never_answer_as_the_base(tmp_path: Path, prefix: str) -> None:
    """A15: nothing matched is an error with matched and expected counts, whatever the prefix."""
    recipe = AdapterRecipe(spell=lambda key: key.replace(f"{FULL}model.", prefix))
    with refused("no_matching_modules", expected=4, found=0):
        parse(write_adapter(tmp_path, recipe))


def test_one_foreign_tensor_among_healthy_ones_is_refused(tmp_path: Path) -> None:
    """A15: part of an adapter is not the adapter."""
    recipe = AdapterRecipe(spell=lambda key: key.replace(f"{FULL}model.layers.1", f"{FULL}vision.layers.1"))
    with refused("unmatched_tensor"):
        parse(write_adapter(tmp_path, recipe))


def fuse(tensors: Tensors, parts: tuple[str, ...], fused: str) -> Tensors:
    """The separate projections of every layer as one: A of the first, the Bs on top of each other."""
    out: Tensors = {}
    for key, value in tensors.items():
        name = key.split(".")[-3]
        if name not in parts:
            out[key] = value
        elif name == parts[0]:
            rows = [tensors[key.replace(parts[0], part)] for part in parts]
            out[key.replace(parts[0], fused)] = rows[0] if "lora_A" in key else np.concatenate(rows)
    return out


def share_a(tensors: Tensors, parts: tuple[str, ...]) -> Tensors:
    """The separate form of a fused adapter: every part has the first one's A."""
    return {key: tensors[key.replace(key.split(".")[-3], parts[0])] if "lora_A" in key else value for key, value in tensors.items()}


FUSED = [(("q_proj", "k_proj", "v_proj"), "qkv_proj"), (("gate_proj", "up_proj"), "gate_up_proj")]


@pytest.mark.parametrize(("parts", "fused"), FUSED)
def test_a_fused_projection_is_split_by_rows(tiny_base: Path, tmp_path: Path, parts: tuple[str, ...], fused: str) -> None:
    """A21: q 64, k 32, v 32 rows (and gate 96, up 96) with one shared A answer as the separate adapter does.

    Half the usual strength: q and k with the same A make attention so sharp that PEFT and plain arithmetic differ by 1e-4.
    """
    recipe = AdapterRecipe(modules=parts, std=0.15)
    separate = edit_tensors(write_adapter(tmp_path / "separate", recipe), lambda tensors: share_a(tensors, parts))
    folder = edit_tensors(write_adapter(tmp_path / "fused", recipe), lambda tensors: fuse(share_a(tensors, parts), parts, fused))
    edit_config(folder, target_modules=[fused])
    assert parse(folder).digest == parse(separate).digest
    assert parse(folder).warnings == ()
    assert_served_as(oracle.peft_model(tiny_base, separate), served_model(tiny_base, packed(folder)))


@pytest.mark.parametrize(("parts", "fused"), FUSED)
def test_fused_patterns_are_matched_by_the_fused_name(tmp_path: Path, parts: tuple[str, ...], fused: str) -> None:
    """A21, A02: alpha_pattern names what the trainer saw."""
    folder = edit_tensors(write_adapter(tmp_path, AdapterRecipe(modules=parts)), lambda tensors: fuse(tensors, parts, fused))
    edit_config(folder, target_modules=[fused], alpha_pattern={fused: 80})
    assert {matrix.scale for matrix in parse(folder).matrices} == {10.0}


def test_fused_rows_of_another_width_are_refused(tmp_path: Path) -> None:
    """A21: 192 rows where the base's q, k and v have 128 (no grouped heads)."""
    folder = edit_tensors(write_adapter(tmp_path, AdapterRecipe(modules=FUSED[0][0])), lambda tensors: fuse(tensors, *FUSED[0]))
    edit_tensors(
        folder, lambda tensors: {key: np.tile(value, (2, 1))[:192] if "lora_B" in key else value for key, value in tensors.items()}
    )
    with refused("shape_mismatch", expected="[128, rank]", found=[192, 8]):
        parse(folder)


def test_a_fused_projection_beside_one_of_its_parts_is_refused(tmp_path: Path) -> None:
    """A21: two answers for q."""
    folder = edit_tensors(write_adapter(tmp_path, AdapterRecipe(modules=FUSED[0][0])), lambda tensors: tensors | fuse(tensors, *FUSED[0]))
    with refused("ambiguous_keys"):
        parse(folder)


@pytest.mark.parametrize("module", ["Wqkv", "W_pack", "query_key_value", "in_proj", "fc1"])
def test_modules_of_other_families_are_refused_by_name(tmp_path: Path, module: str) -> None:
    """A21: the tensor at fault is named, and nothing is served."""
    folder = write_adapter(tmp_path, AdapterRecipe(modules=["q_proj"], spell=lambda key: key.replace("q_proj", module)))
    with refused("no_matching_modules", expected=2, found=0) as caught:
        parse(folder)
    assert module in caught.value.message


@pytest.mark.parametrize(
    ("shape", "modules", "found"),
    [
        (replace(TINY, hidden=80), ["q_proj"], [8, 80]),
        (replace(TINY, mlp=112), ["up_proj"], [112, 8]),
        (replace(TINY, kv_heads=4), ["v_proj"], [64, 8]),
    ],
    ids=["hidden 80", "inner 112", "4 KV heads"],
)
def test_an_adapter_of_another_size_is_refused(tmp_path: Path, shape: object, modules: list[str], found: list[int]) -> None:
    """A31: the first tensor that does not fit, expected and found."""
    with refused("shape_mismatch", found=found) as caught:
        parse(write_adapter(tmp_path, AdapterRecipe(modules=modules), shape))  # type: ignore[arg-type]
    assert (caught.value.param or "").startswith("base_model.model.model.layers.0.")


def test_layers_beyond_the_base_are_refused(tmp_path: Path) -> None:
    """A31: an adapter of a three-layer base."""
    with refused("layer_out_of_range", expected="below 2", found=2):
        parse(write_adapter(tmp_path, AdapterRecipe(), replace(TINY, layers=3)))


def test_a_transposed_matrix_is_refused(tmp_path: Path) -> None:
    """A31: never reshaped to fit."""
    folder = edit_tensors(
        write_adapter(tmp_path), lambda tensors: tensors | {f"{Q0}.lora_A.weight": tensors[f"{Q0}.lora_A.weight"].T.copy()}
    )
    with refused("shape_mismatch", param=f"{Q0}.lora_A.weight", expected="[rank, 64]", found=[64, 8]):
        parse(folder)


@pytest.mark.parametrize("half", ["A", "B"])
def test_half_a_pair_is_refused(tmp_path: Path, half: str) -> None:
    """A missing A or B is named by its partner."""
    gone = f"{Q0}.lora_{half}.weight"
    folder = edit_tensors(write_adapter(tmp_path), lambda tensors: {key: value for key, value in tensors.items() if key != gone})
    with refused("missing_pair", expected=f"lora_{half} of model.layers.0.self_attn.q_proj"):
        parse(folder)


def test_any_subset_of_modules_and_layers(tiny_base: Path, tmp_path: Path) -> None:
    """Every projection alone lands where PEFT puts it."""
    for module in MODULES:
        folder = write_adapter(tmp_path / module, AdapterRecipe(modules=[module], layers=[1]))
        assert_served_as(oracle.merged_model(tiny_base, folder), served_model(tiny_base, packed(folder)))


@pytest.mark.parametrize(
    "key", ["x" * 5000, "layers." * 700, "a\n2026 INFO admin granted", "\x1b[31mred", "layers.99999999999.self_attn.q_proj.lora_A.weight"]
)
def test_a_hostile_name_stays_on_one_short_line(tmp_path: Path, key: str) -> None:
    """D11: a refusal quotes a tensor's name without its control characters, and not all of it."""
    folder = edit_tensors(write_adapter(tmp_path), lambda tensors: tensors | {key: tensors[f"{Q0}.lora_A.weight"]})
    with refused("unmatched_tensor") as caught:
        parse(folder, base_of())
    assert len(caught.value.param or "") <= 201
    assert str(caught.value.found).isprintable()
