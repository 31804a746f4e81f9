"""The batched sgemm and the loop that stands in for it are the same product."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from kernels import grouped_gemm, lora_expand, lora_shrink
from kernels.grouped_gemm import Products, batched_sgemm, waves_of
from kernels.lora_loop import LoopWave
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


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["shrink", "expand"])
def test_one_row_products_are_shared_out_whole(kind: Literal["shrink", "expand"], threads: int) -> None:
    """Ranks and widths that no share divides: the loop gives what torch gives, product by product, on any team."""
    rng, before = np.random.default_rng(3), torch.get_num_threads()
    ranks, width = rng.integers(1, 65, 9), rng.integers(1, 700, 9)
    weight, columns = np.concatenate(([0], np.cumsum(ranks * width)[:-1])), int(width.max())
    arena, scratch, x = torch.randn(int((ranks * width).sum())), torch.randn(9, 64), torch.randn(9, columns)
    one, none = np.ones(9, dtype=np.int64), np.zeros(9, dtype=np.int64)
    products = Products(
        kind=kind, start=np.arange(9), rows=one, column=none, weight=weight, ranks=ranks, width=width, out_column=none,
        activation_columns=columns,
    )  # fmt: skip
    expected_scratch, expected_x = scratch.clone(), x.clone()
    for at in range(9):
        matrix = arena[weight[at] : weight[at] + ranks[at] * width[at]].view(ranks[at], width[at])
        if kind == "shrink":
            expected_scratch[at, : ranks[at]] = matrix @ x[at, : width[at]]
        else:
            expected_x[at, : width[at]] += scratch[at, : ranks[at]] @ matrix
    torch.set_num_threads(threads)
    try:
        LoopWave(products, 0, 9, arena, scratch).run(x)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(scratch, expected_scratch, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(x, expected_x, atol=1e-4, rtol=1e-4)
