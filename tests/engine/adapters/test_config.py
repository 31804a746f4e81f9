"""A04, A11, A12, A23, A26, A27, A29, A35: what adapter_config.json may say, and the real files that people publish."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.models.spec import MODULES
from tests import oracle
from tests.engine.adapters.bench import assert_served_as, edit_config, edit_tensors, packed, parse, refused, served_model
from tests.tiny import BLOCKS, AdapterRecipe, Tensors, write_adapter, write_json

Q0 = "base_model.model.model.layers.0.self_attn.q_proj"
FIELDS_OF_0_21 = {
    **dict.fromkeys(("alora_invocation_tokens", "arrow_config", "auto_mapping", "corda_config", "eva_config", "exclude_modules")),
    **dict.fromkeys(("kasa_config", "layer_replication", "layers_pattern", "lora_ga_config", "megatron_config", "monteclora_config")),
    **dict.fromkeys(("target_parameters", "trainable_token_indices", "use_bdlora", "velora_config", "revision")),
    **dict.fromkeys(("ensure_weight_tying", "lora_bias", "use_qalora"), False),
    "init_lora_weights": True,
    "loftq_config": {},
    "megatron_core": "megatron.core",
    "peft_version": "0.21.0",
    "qalora_group_size": 16,
}


@pytest.fixture(scope="module")
def plain_digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a healthy adapter on all seven modules."""
    return parse(write_adapter(tmp_path_factory.mktemp("plain"), AdapterRecipe(modules=MODULES))).digest


def all_seven(folder: Path, **fields: object) -> Path:
    """The same tensors under another config."""
    return edit_config(write_adapter(folder, AdapterRecipe(modules=MODULES)), **fields)


@pytest.mark.parametrize(
    "target_modules",
    [
        "all-linear",
        None,
        r".*\.layers\.[01]\.(self_attn|mlp)\.\w+_proj",
        "((((a+)+)+)+)+$" * 3400,
        [f"model.layers.{layer}.{BLOCKS[module]}.{module}" for layer in (0, 1) for module in MODULES],
        [f"{BLOCKS[module]}.{module}" for module in MODULES],
    ],
    ids=["all-linear", "null", "regex", "evil regex of 50 KB", "full paths", "prefixed names"],
)
def test_target_modules_in_any_form_is_the_same_adapter(tmp_path: Path, plain_digest: str, target_modules: object) -> None:
    """A11, A12: what counts is the tensors present, and no form of the field makes validation wait."""
    start_s = time.perf_counter()
    parsed = parse(all_seven(tmp_path, target_modules=target_modules))
    assert (parsed.digest, parsed.warnings, parsed.num_matched) == (plain_digest, (), 14)
    assert time.perf_counter() - start_s < 2


def test_a_regex_over_part_of_the_model(tiny_base: Path, tmp_path: Path) -> None:
    """A11: a regex that hits layer 0's q and down only."""
    folder = write_adapter(tmp_path, AdapterRecipe(modules=("q_proj", "down_proj"), layers=[0]))
    edit_config(folder, target_modules=r".*layers\.0\..*(q|down)_proj", layers_to_transform=None)
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))
    assert parse(folder).warnings == ()


def test_target_modules_of_a_wrong_kind(tmp_path: Path) -> None:
    """A11: neither list, text nor null."""
    with refused("config_invalid", param="target_modules"):
        parse(all_seven(tmp_path, target_modules={"q_proj": 1}))


def test_names_and_tensors_that_differ_are_told(tmp_path: Path) -> None:
    """A config of another run: tensors win, and the operator reads both."""
    parsed = parse(all_seven(tmp_path, target_modules=["q_proj", "W_pack"]))
    assert parsed.num_matched == 14
    assert any("does not name model.layers.0.self_attn.k_proj (12" in warning for warning in parsed.warnings)
    assert any("names W_pack" in warning for warning in parsed.warnings)


@pytest.mark.parametrize("listed", [["W_pack"], ["Wqkv", "fc1"], ["query_key_value", "dense"], ["qkv_projection"]])
def test_a_list_that_names_none_of_the_tensors_is_refused(tmp_path: Path, listed: list[str]) -> None:
    """A21: the config of another family over Llama tensors; its scale is not theirs."""
    with refused("no_matching_modules", param="target_modules"):
        parse(all_seven(tmp_path, target_modules=listed))


def test_fused_names_over_separate_tensors_are_the_same_modules(tmp_path: Path, plain_digest: str) -> None:
    """A21: weights split by a converter, under the trainer's config."""
    parsed = parse(all_seven(tmp_path, target_modules=["self_attn.qkv_proj", "o_proj", "gate_up_proj", "down_proj"]))
    assert (parsed.digest, parsed.warnings) == (plain_digest, ())


@pytest.mark.parametrize("layers", [[1], 1])
def test_some_layers_only(tiny_base: Path, tmp_path: Path, layers: object) -> None:
    """A23: layers_to_transform leaves layer 0 as base, without a warning."""
    folder = edit_config(write_adapter(tmp_path, AdapterRecipe(layers=[1])), layers_to_transform=layers)
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))
    assert parse(folder).warnings == ()


def test_a_module_excluded_by_a_regex(tiny_base: Path, tmp_path: Path) -> None:
    """A23: an exclude regex that drops layer 0's v."""
    folder = edit_config(write_adapter(tmp_path), exclude_modules=r".*\.0\.self_attn\.v_proj")
    edit_tensors(folder, lambda tensors: {key: value for key, value in tensors.items() if "0.self_attn.v_proj" not in key})
    assert_served_as(oracle.peft_model(tiny_base, folder), served_model(tiny_base, packed(folder)))
    assert parse(folder).num_matched == 3


def test_layers_left_out_without_a_word_are_told(tmp_path: Path) -> None:
    """A31: an adapter of a one-layer base fits as a subset, and the operator is asked to look."""
    folder = edit_config(write_adapter(tmp_path, AdapterRecipe(layers=[0])), layers_to_transform=None)
    assert any("1 of the base's 2 layers" in warning for warning in parse(folder).warnings)


def test_fields_of_current_peft_are_accepted(tmp_path: Path, plain_digest: str) -> None:
    """A29: PEFT 0.21 writes them all, null or false."""
    parsed = parse(all_seven(tmp_path, **FIELDS_OF_0_21))
    assert (parsed.digest, parsed.warnings) == (plain_digest, ())


@pytest.mark.parametrize("value", [None, False, {}, [], ""])
def test_an_unknown_field_that_says_nothing_is_ignored(tmp_path: Path, value: object) -> None:
    """A29: a newer PEFT's field at rest; an ancient one's too."""
    assert parse(all_seven(tmp_path, zz_future=value, enable_lora=None, merge_weights=False)).warnings == ()


def test_an_unknown_field_with_a_value_is_told(tmp_path: Path) -> None:
    """A29: accepted, with the field's name in a warning."""
    assert any("zz_future" in warning for warning in parse(all_seven(tmp_path, zz_future={"a": 1})).warnings)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("use_dora", True, "dora_unsupported"),
        ("lora_bias", True, "bias_unsupported"),
        ("bias", "lora_only", "bias_unsupported"),
        ("bias", "all", "bias_unsupported"),
        ("fan_in_fan_out", True, "unsupported_field"),
        ("kasa_config", {"beta": 1e-4}, "unsupported_field"),
        ("use_bdlora", {"nblocks": 2}, "unsupported_field"),
        ("velora_config", {"x": 1}, "unsupported_field"),
        ("alora_invocation_tokens", [1, 2], "unsupported_field"),
        ("layer_replication", [[0, 2]], "unsupported_field"),
        ("trainable_token_indices", [3], "unsupported_field"),
        ("target_parameters", ["experts.w1"], "unsupported_field"),
        ("use_qalora", True, "unsupported_field"),
        ("init_lora_weights", "pissa_niter_4", "unsupported_field"),
        ("init_lora_weights", "olora", "unsupported_field"),
        ("use_rslora", "true", "config_invalid"),
        ("rank_pattern", ["q_proj"], "config_invalid"),
        ("alpha_pattern", {"q_proj": "16"}, "config_invalid"),
        ("modules_to_save", "lm_head", "config_invalid"),
        ("base_model_name_or_path", 7, "config_invalid"),
    ],
)
def test_a_field_that_changes_the_answer_is_refused(tmp_path: Path, field: str, value: object, code: str) -> None:
    """A04, A29, A35: named, never dropped."""
    with refused(code) as caught:
        parse(all_seven(tmp_path, **{field: value}))
    assert (caught.value.param or "").startswith(field)


@pytest.mark.parametrize("init", ["gaussian", "eva", "orthogonal", True, False, None])
def test_starts_that_leave_the_base_alone_are_accepted(tmp_path: Path, plain_digest: str, init: object) -> None:
    """How A and B began does not matter once they are trained."""
    assert parse(all_seven(tmp_path, init_lora_weights=init)).digest == plain_digest


@pytest.mark.parametrize("peft_type", ["ADALORA", "IA3", "PREFIX_TUNING", "TRAINABLE_TOKENS", "SUPERTUNING", "lora", None, 7, ["LORA"]])
def test_another_method_is_refused_by_name(tmp_path: Path, peft_type: object) -> None:
    """A26: even when r and lora_alpha are there; lower case and absent too."""
    with refused("unsupported_peft_type", param="peft_type", expected="LORA"):
        parse(all_seven(tmp_path, peft_type=peft_type))


def test_dora_that_only_its_tensors_show(tmp_path: Path) -> None:
    """A04: a magnitude beside an ordinary config is refused by the tensor, never served as plain LoRA."""

    def add_magnitude(tensors: Tensors) -> None:
        tensors[f"{Q0}.lora_magnitude_vector"] = tensors[f"{Q0}.lora_B.weight"][:, 0] + 1

    with refused("dora_unsupported", param=f"{Q0}.lora_magnitude_vector"):
        parse(edit_tensors(write_adapter(tmp_path), add_magnitude))


@pytest.mark.parametrize("task_type", ["SEQ_CLS", "TOKEN_CLS"])
def test_a_trained_head_needs_its_own_base(tmp_path: Path, task_type: str) -> None:
    """A35: refused by task, whether the config or only a tensor shows the head."""
    with refused("task_mismatch", param="task_type", expected="CAUSAL_LM", found=task_type):
        parse(all_seven(tmp_path / "config", task_type=task_type, modules_to_save=["classifier", "score"]))
    folder = edit_tensors(
        all_seven(tmp_path / "tensor"), lambda tensors: tensors | {"base_model.model.score.weight": tensors[f"{Q0}.lora_A.weight"][:1]}
    )
    with refused("task_mismatch", param="base_model.model.score.weight"):
        parse(folder)


def test_a_wrong_task_alone_is_told(tmp_path: Path, plain_digest: str) -> None:
    """A35: SEQ_2_SEQ_LM over matching causal tensors."""
    parsed = parse(all_seven(tmp_path, task_type="SEQ_2_SEQ_LM"))
    assert parsed.digest == plain_digest
    assert any("SEQ_2_SEQ_LM" in warning for warning in parsed.warnings)


@pytest.mark.parametrize(
    "config",
    [
        {"fine_tune_type": "lora", "lora_parameters": {"rank": 8, "dropout": 0.0, "scale": 20.0}, "num_layers": 8, "model": "m"},
        {"lora_layers": 32, "lora_parameters": {"rank": 128, "alpha": 256, "scale": 10.0, "keys": ["mlp.up_proj"]}, "use_dora": False},
        {"num_layers": 8, "lora_parameters": {"rank": 4, "scale": 10.0, "dropout": 0.3}},
    ],
    ids=["current", "old", "three keys"],
)
def test_mlx_is_recognised(tmp_path: Path, config: dict[str, object]) -> None:
    """A27: by its config, by its file name and by its keys, before PEFT's rules are applied to it."""
    write_json(write_adapter(tmp_path / "config") / "adapter_config.json", config)
    with refused("mlx_format"):
        parse(tmp_path / "config")
    write_json(write_adapter(tmp_path / "file") / "adapter_config.json", config)
    (tmp_path / "file" / "adapter_model.safetensors").rename(tmp_path / "file" / "adapters.safetensors")
    with refused("mlx_format", param="adapters.safetensors"):
        parse(tmp_path / "file")


def test_mlx_keys_under_a_peft_config(tmp_path: Path) -> None:
    """A27: transposed lora_a and lora_b are never taken for PEFT's."""

    def as_mlx(key: str) -> str:
        return key.removeprefix("base_model.model.").replace("lora_A.weight", "lora_a").replace("lora_B.weight", "lora_b")

    with refused("mlx_format"):
        parse(write_adapter(tmp_path, AdapterRecipe(spell=as_mlx)))
