"""The batched sgemm and the loop that stands in for it are the same product."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels import grouped_gemm, lora_expand, lora_shrink
from kernels.grouped_gemm import Products, batched_sgemm, waves_of
from tests.kernels.adapters import MIXES, NUM_ROWS, adapters_of
from tests.kernels.compare import assert_near


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch was built without MKL")
def test_torch_carries_the_symbol() -> None:
    """The fast path is taken where it is promised."""
    assert batched_sgemm() is not None


@pytest.mark.parametrize("mix", MIXES)
def test_loop_is_the_batched_call(monkeypatch: pytest.MonkeyPatch, mix: str) -> None:
    """A batch whose plan has no symbol gives what one with it gives."""
    adapters, results = adapters_of((1, 17, 48, 64, 5, 16)), []
    x, before = torch.randn(NUM_ROWS, 40), torch.randn(NUM_ROWS, 104)
    for symbol in (batched_sgemm(), None):
        monkeypatch.setattr(grouped_gemm, "batched_sgemm", lambda symbol=symbol: symbol)
        call, out = adapters.batch(MIXES[mix]).call(1, "qkv"), before.clone()
        lora_expand(lora_shrink(x, call), call, out)
        results.append(out)
    assert_near(results[0], results[1])


def test_without_mkl_there_is_no_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of torch without MKL, or with 64-bit ints, takes the loop."""
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert batched_sgemm.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.setattr(torch.__config__, "show", lambda: "USE_MKL=ON, MKL_ILP64")
    assert batched_sgemm.__wrapped__() is None


def test_a_wrong_answer_is_not_trusted() -> None:
    """The question asked of a fresh symbol tells one that does nothing."""
    assert not grouped_gemm._answers(lambda *_: None)


def test_wide_rows_and_empty_intervals() -> None:
    """Many rows in one product; an empty interval is no wave."""
    arena, scratch, x = torch.randn(3 * 5), torch.empty(50, 4), torch.randn(50, 5)
    numbers = {"start": 0, "rows": 50, "column": 1, "weight": 0, "ranks": 3, "width": 5, "out_column": 0}
    products = Products(kind="shrink", activation_columns=5, **{name: np.array([value]) for name, value in numbers.items()})
    waves = waves_of(products, [(0, 0), (0, 1)], arena=arena, scratch=scratch)
    assert waves[0] is None
    assert waves[1] is not None
    waves[1].run(x)
    assert_near(scratch[:, 1:], x @ arena.view(3, 5).T)
    assert scratch[:, 0].isnan().all()
