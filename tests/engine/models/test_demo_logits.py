"""The demo base, thirty layers of it, says what ``transformers`` says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from engine.models.decode_pass import DecodePasses
from engine.models.decoder import DecoderModel
from tests import oracle
from tests.engine.models.paged import Row, Session, batch_of, in_chunks, in_one_pass, load_model

pytestmark = pytest.mark.demo
CAPITALS = "The capital of France is Paris, and the capital of Italy is"
TEXTS = (CAPITALS, "def quicksort(items):\n    if len(items) < 2:\n        return items\n", "zwölf Äpfel, 漢字 and 🙂")
NOISE = [np.random.default_rng(seed).integers(0, 49152, 48).tolist() for seed in (0, 4)]
"""Tokens of no language: the hardest on rounding. On such, ``transformers`` in one pass and with a cache differ by up to 1.6e-4."""


@pytest.fixture(scope="module")
def model(demo_folder: Path) -> DecoderModel:
    """Ours."""
    return load_model(demo_folder)


@pytest.fixture(scope="module")
def theirs(demo_folder: Path) -> nn.Module:
    """That of ``transformers``, fp32; the last test makes it fp64."""
    return oracle.base_model(demo_folder)


def in_decode_passes(model: DecoderModel, tokens: Sequence[int]) -> Tensor:
    """Logits [len(tokens), vocab] from prepared decode steps of one token."""
    session = Session(model)
    pages, passes = session.pages(len(tokens)), DecodePasses(model, session.kv)
    return torch.cat([passes.run(batch_of([Row(tokens, pages, at, at + 1)], ())).clone() for at in range(len(tokens))])


def test_text_in_one_pass_in_chunks_and_one_by_one(model: DecoderModel, theirs: nn.Module, demo_folder: Path) -> None:
    """Any way through, and it knows what a sound import knows."""
    tokenizer = Tokenizer.from_file(str(demo_folder / "tokenizer.json"))
    for text in TEXTS:
        tokens = tokenizer.encode(text).ids
        expected = oracle.logits(theirs, tokens)
        for found in (in_one_pass(model, tokens), in_chunks(model, tokens, (5, len(tokens) - 5)), in_decode_passes(model, tokens)):
            assert (found - expected).abs().max() < oracle.LOGIT_TOLERANCE
    assert oracle.logits(theirs, tokenizer.encode(CAPITALS).ids)[-1].argmax() == tokenizer.token_to_id("ĠRome")


def test_as_near_to_float64_as_transformers(model: DecoderModel, theirs: nn.Module) -> None:
    """What rounding leaves open where two fp32 passes differ by more than the tolerance."""
    single = [oracle.logits(theirs, tokens) for tokens in NOISE]
    theirs.double()
    for tokens, rounded in zip(NOISE, single, strict=True):
        with torch.inference_mode():
            truth = theirs(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        for found in (in_one_pass(model, tokens), in_decode_passes(model, tokens)):
            assert (found - truth).abs().mean() < 1.25 * (rounded - truth).abs().mean()
            assert (found - truth).abs().max() < 2 * (rounded - truth).abs().max()
