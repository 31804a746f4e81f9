from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from engine.models.decoder import DecoderModel
from tests import oracle
from tests.engine.models.paged import Row, Session, batch_of, in_chunks, in_one_pass, load_model, one_by_one
from tests.tiny import TINY, TINY_B, TINY_M, TINY_Q3, TINY_T, TinyShape, write_base

LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
SHAPES = {
    "llama": TINY,
    "smollm2 (llama, tied)": TINY_T,
    "mistral, window 12": TINY_M,
    "qwen2, biases": TINY_B,
    "qwen3, q and k norms": TINY_Q3,
    "qwen2, window in the upper layer": TinyShape(
        family="qwen2", config={"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
    ),
    "head wider than hidden / heads": TinyShape(head_dim=24),
    "one key head": TinyShape(kv_heads=1),
    "as many key heads": TinyShape(kv_heads=4),
    "linear": TinyShape(config={"rope_scaling": {"type": "linear", "factor": 2.0}}),
    "llama3": TinyShape(config={"rope_scaling": LLAMA3}),
    "yarn": TinyShape(config={"rope_scaling": YARN}),
    "yarn, all its fields": TinyShape(
        config={"rope_scaling": YARN | {"attention_factor": 0.8, "beta_fast": 4, "beta_slow": 0.5, "truncate": False}}
    ),
    "transformers 5 spelling": TinyShape(config={"rope_parameters": LLAMA3 | {"rope_theta": 500.0}, "rope_theta": 3.0}),
}
TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, 256, 75)]


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each family and rotation."""
    return write_base(tmp_path_factory.mktemp("base") / "tiny", request.param)


@pytest.fixture(scope="module")
def model(base: Path) -> DecoderModel:
    """The same folder, loaded."""
    return load_model(base)


@pytest.fixture(scope="module")
def expected(base: Path) -> torch.Tensor:
    """What transformers says of TOKENS."""
    return oracle.logits(oracle.base_model(base), TOKENS)


def test_one_pass_equals_transformers(model: DecoderModel, expected: torch.Tensor) -> None:
    """A prompt in one pass."""
    assert (in_one_pass(model, TOKENS) - expected).abs().max() < oracle.LOGIT_TOLERANCE


def test_chunks_equal_transformers(model: DecoderModel, expected: torch.Tensor) -> None:
    """A prompt cut inside pages, at their borders and into single tokens."""
    assert (in_chunks(model, TOKENS, (16, 1, 30, 1, 27)) - expected).abs().max() < oracle.LOGIT_TOLERANCE


def test_decoding_equals_transformers(model: DecoderModel, expected: torch.Tensor) -> None:
    """One token a step over four pages and more."""
    assert (one_by_one(model, TOKENS) - expected).abs().max() < oracle.LOGIT_TOLERANCE


def test_mixed_batch_equals_each_alone(tmp_path: Path) -> None:
    """Two decoding and two prefilling sequences of other lengths in one pass do not touch one another."""
    model = load_model(write_base(tmp_path / "base", TINY_M))
    session = Session(model)
    texts = [TOKENS[:n] for n in (20, 33, 48, 7)]
    pages = [session.pages(len(text)) for text in texts]
    session.run(prefill=[Row(text, page, 0, len(text) - 1) for text, page in zip(texts[:2], pages[:2], strict=True)])
    session.run(prefill=[Row(texts[2], pages[2], 0, 17)])
    mixed = session.run(
        decode=[Row(text, page, len(text) - 1, len(text)) for text, page in zip(texts[:2], pages[:2], strict=True)],
        prefill=[Row(texts[2], pages[2], 17, 48), Row(texts[3], pages[3], 0, 7)],
    )
    alone = [in_one_pass(model, text) for text in texts]
    expected = torch.cat([alone[0][-1:], alone[1][-1:], alone[2][17:], alone[3]])
    assert (mixed - expected).abs().max() < oracle.LOGIT_TOLERANCE


def test_only_wanted_rows_reach_the_head(tmp_path: Path) -> None:
    """``logit_rows`` picks rows in its own order, and none is none."""
    model = load_model(write_base(tmp_path / "base"))
    session = Session(model)
    everything = in_one_pass(model, TOKENS)
    batch = batch_of((), [Row(TOKENS, session.pages(len(TOKENS)), 0, len(TOKENS))])
    assert torch.equal(model.forward(replace(batch, logit_rows=torch.tensor([74, 3])), session.kv).argmax(1), everything[[74, 3]].argmax(1))
    assert model.forward(replace(batch, logit_rows=torch.tensor([], dtype=torch.int64)), session.kv).shape == (0, 320)


@pytest.mark.parametrize("field", ["self_attn.q_proj.bias", "self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.down_proj.bias"])
def test_llama_biases_equal_transformers(tmp_path: Path, field: str) -> None:
    """``attention_bias`` covers q, k, v and o, ``mlp_bias`` the MLP; each bias alone changes the answer as transformers says."""
    folder = write_base(tmp_path / "base", TinyShape(config={"attention_bias": True, "mlp_bias": True}))
    tensors, rng = load_file(folder / "model.safetensors"), np.random.default_rng(3)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        bias = name.removesuffix("weight") + "bias"
        size = tensors[name].shape[0]
        tensors[bias] = rng.standard_normal(size, dtype=np.float32) if bias.endswith(field) else np.zeros(size, np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    expected = oracle.logits(oracle.base_model(folder), TOKENS[:20])
    assert (in_one_pass(load_model(folder), TOKENS[:20]) - expected).abs().max() < oracle.LOGIT_TOLERANCE
