"""A prepared decode step says what the forward pass says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models import decode_pass
from engine.models.decode_pass import DecodePass, DecodePasses
from engine.models.decoder import DecoderModel
from kernels.lora_batch import LoraBatch
from tests.engine.models.paged import Row, Session, batch_of, load_model
from tests.engine.models.test_lora import RECIPES, TOKENS, HandPacked
from tests.tiny import TINY, TINY_B, TINY_M, TINY_Q3, TinyShape, write_adapter, write_base

SHAPES = {"llama": TINY, "qwen2, biases": TINY_B, "mistral, window 12": TINY_M, "odd widths": TinyShape(mlp=100, vocab=301)}
LENGTHS = (40, 1, 17, 33)


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DecoderModel:
    """Of a few families."""
    return load_model(write_base(tmp_path_factory.mktemp("base") / "tiny", request.param))


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def prefilled(model: DecoderModel, lengths: Sequence[int]) -> tuple[Session, list[list[int]]]:
    """Sequences of these lengths whose last token is still to come."""
    session = Session(model)
    pages = [session.pages(length + 4) for length in lengths]
    for length, each in zip(lengths, pages, strict=True):
        if length > 1:
            session.run(prefill=[Row(TOKENS, each, 0, length - 1)])
    return session, pages


def steps(session: Session, pages: list[list[int]], lora: LoraBatch | None, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(prepared, plain) logits of a few decode steps of all sequences."""
    passes = DecodePasses(session.model, session.kv)
    for step in range(count):
        rows = [Row([*TOKENS, 9, 8, 7], each, length - 1 + step, length + step) for length, each in zip(LENGTHS, pages, strict=True)]
        batch = batch_of(rows, (), lora)
        assert passes.can_run(batch)
        prepared = passes.run(batch).clone()
        yield prepared, session.model.forward(batch, session.kv)


@pytest.mark.usefixtures("_threads")
def test_steps_of_the_base(model: DecoderModel) -> None:
    """Three steps of sequences of different lengths, on one program."""
    session, pages = prefilled(model, LENGTHS)
    for prepared, plain in steps(session, pages, None, 3):
        torch.testing.assert_close(prepared, plain, rtol=0, atol=1e-5)


@pytest.fixture
def packed(model: DecoderModel, tmp_path: Path) -> HandPacked:
    """Three adapters of the model."""
    shape = TinyShape(mlp=model.spec.mlp_size, vocab=model.spec.vocab_size)
    return HandPacked(model.spec, [write_adapter(tmp_path / f"{index}", recipe, shape) for index, recipe in enumerate(RECIPES[:3])])


@pytest.mark.usefixtures("_threads")
def test_steps_with_adapters(model: DecoderModel, packed: HandPacked) -> None:
    """A different adapter a row, and one of the base; rounded where the rows of a product are shared out otherwise."""
    lora = packed.batch([(0, 1, 2), (1, 1, 0), (3, 1, 1)])
    session, pages = prefilled(model, LENGTHS)
    for prepared, plain in steps(session, pages, lora, 3):
        torch.testing.assert_close(prepared, plain, rtol=0, atol=1e-4)


def test_the_program_is_kept_while_the_rows_stay(model: DecoderModel, packed: HandPacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once for many steps; anew for more rows, other adapters, longer sequences, or more threads."""
    made: list[int] = []
    original = DecodePass.__init__

    def counted(self: DecodePass, *arguments: object) -> None:
        made.append(1)
        original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(decode_pass.DecodePass, "__init__", counted)
    session, pages = prefilled(model, LENGTHS)
    assert len(list(steps(session, pages, None, 3))) == 3
    assert len(made) == 1
    batch = batch_of([Row(TOKENS, pages[0], 39, 40)], ())
    kept = DecodePass(model, session.kv, batch)
    assert kept.serves(batch)
    assert not kept.serves(batch_of([Row(TOKENS, each, 0, 1) for each in pages], ()))
    assert not kept.serves(replace(batch, max_decode_length=decode_pass.GROWTH_KEYS + 1))
    assert not kept.serves(replace(batch, lora=packed.batch([(0, 1, 0)])))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert not kept.serves(batch)


def test_what_is_not_all_loops_takes_the_forward_pass(
    model: DecoderModel, packed: HandPacked, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Prefill, rows that are not sampled, an adapter with two rows, weights as they come, and heads with a norm."""
    session, pages = prefilled(model, LENGTHS)
    passes = DecodePasses(model, session.kv)
    decode = [Row(TOKENS, pages[0], 39, 40), Row(TOKENS, pages[1], 0, 1)]
    assert passes.can_run(batch_of(decode, ()))
    assert not passes.can_run(batch_of(decode[:1], decode[1:]))
    assert not passes.can_run(replace(batch_of(decode, ()), logit_rows=torch.arange(1)))
    assert not passes.can_run(batch_of(decode, (), packed.batch([(0, 2, 0)])))
    folder = write_base(tmp_path_factory.mktemp("base") / "tiny", TINY)
    assert not DecodePasses(load_model(folder, "plain"), session.kv).can_run(batch_of(decode, ()))
    normed = load_model(write_base(tmp_path_factory.mktemp("base") / "tiny", TINY_Q3))
    assert not DecodePasses(normed, session.kv).can_run(batch_of(decode, ()))
