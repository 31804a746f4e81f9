"""A06, A08, A09: adapters that touch the embedding or the head are refused; a copied token list is harmless."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.engine.adapters.bench import base_of, edit_config, edit_tensors, parse, refused
from tests.tiny import TINY_T, AdapterRecipe, Tensors, write_adapter, write_json

FULL = "base_model.model."


def rows(count: int) -> Tensors:
    """Full copies of both matrices, as modules_to_save keeps them."""
    values = np.ones((count, 64), dtype=np.float32)
    return {f"{FULL}model.embed_tokens.weight": values, f"{FULL}lm_head.weight": values}


def with_rows(folder: Path, count: int) -> Path:
    """A healthy adapter that also carries the vocabulary."""
    edit_tensors(write_adapter(folder), lambda tensors: tensors | rows(count))
    return edit_config(folder, modules_to_save=["embed_tokens", "lm_head"])


def test_replaced_rows_are_refused(tmp_path: Path) -> None:
    """A06: as many rows as the base has."""
    with refused("modules_to_save_unsupported", param=f"{FULL}lm_head.weight"):
        parse(with_rows(tmp_path, 320))


def test_added_rows_are_refused_with_both_counts(tmp_path: Path) -> None:
    """A06: four more tokens than the base."""
    with refused("vocab_mismatch", expected=320, found=324):
        parse(with_rows(tmp_path, 324))


def test_rows_that_no_field_announces_are_refused(tmp_path: Path) -> None:
    """A06: trainers save a resized embedding without saying so."""
    with refused("vocab_mismatch", expected=320, found=324):
        parse(edit_tensors(write_adapter(tmp_path), lambda tensors: tensors | rows(324)))


def test_modules_to_save_without_its_tensors_is_refused(tmp_path: Path) -> None:
    """A06: the config asks for what the file does not have."""
    with refused("modules_to_save_unsupported", param="modules_to_save"):
        parse(edit_config(write_adapter(tmp_path), modules_to_save=["lm_head"]))


@pytest.mark.parametrize(
    ("module", "halves"),
    [("lm_head", ("lora_A.weight", "lora_B.weight")), ("model.embed_tokens", ("lora_embedding_A", "lora_embedding_B"))],
)
def test_lora_on_a_tied_vocabulary_is_refused(tmp_path: Path, module: str, halves: tuple[str, str]) -> None:
    """A08: a head's change can never leak into the input embeddings."""
    a, b = np.ones((8, 64), dtype=np.float32), np.ones((320, 8), dtype=np.float32)
    keys = [f"{FULL}{module}.{half}" for half in halves]
    folder = edit_tensors(write_adapter(tmp_path), lambda _: dict(zip(keys, (a, b), strict=True)))
    with refused("embedding_unsupported") as caught:
        parse(edit_config(folder, target_modules=[module.removeprefix("model.")]), base_of(TINY_T))
    assert caught.value.param in keys


def test_a_copied_token_list_is_harmless(tmp_path: Path) -> None:
    """A09: ids that the base has."""
    write_json(write_adapter(tmp_path) / "added_tokens.json", {"<|im_start|>": 257, "<|im_end|>": 258, "<|pad|>": 319})
    assert parse(tmp_path).num_matched == 4


def test_a_token_beyond_the_base_is_refused(tmp_path: Path) -> None:
    """A09: an id equal to the vocabulary, and no row for it."""
    write_json(write_adapter(tmp_path, AdapterRecipe()) / "added_tokens.json", {"<|im_start|>": 257, "<|new|>": 320})
    with refused("vocab_mismatch", param="added_tokens.json", expected="ids below 320", found=320):
        parse(tmp_path)
