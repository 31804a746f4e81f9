"""The tool behind the CPU path: exp, shares of a team, floats as bits, and a machine where nothing can be cached."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numba.core import caching

from kernels import cpu_loop
from kernels.cpu_loop import ENOUGH_WORK, CpuLoop, exp, float_bits, float_from, floats, longs, share


def exp_loop(a: Any) -> None:
    """Each output is e to the input, times a factor."""
    x, out, count, factor = floats(a[0]), floats(a[1]), a[2], float_from(a[3])
    first, end = share(count)
    for i in range(first, end):
        out[i] = exp(x[i]) * factor


def count_loop(a: Any) -> None:
    """Add one to each place of this thread's share."""
    out, count = longs(a[0]), a[1]
    first, end = share(count)
    for i in range(first, end):
        out[i] += 1


def run_exp(loop: CpuLoop, x: torch.Tensor, factor: float) -> torch.Tensor:
    """By the loop, on a team where that is worth it."""
    out = torch.empty_like(x)
    loop(len(x), x.data_ptr(), out.data_ptr(), len(x), float_bits(factor))
    return out


def test_exp_is_exp() -> None:
    """Within three units in the last place over all that fp32 holds, and clamped beyond."""
    x = torch.linspace(-87, 88, 100_001)
    found = run_exp(CpuLoop(exp_loop), x, 1.0).double()
    assert ((found / x.double().exp()) - 1).abs().max() < 3 * torch.finfo(torch.float32).eps
    beyond = run_exp(CpuLoop(exp_loop), torch.tensor([-1e4, 1e4]), 1.0)
    assert beyond[0] < 1e-37
    assert beyond[1] > 1e38


@pytest.mark.parametrize("factor", [0.125, -3.5, 1e-30, 0.0])
def test_floats_travel_as_bits(factor: float) -> None:
    """Every float arrives as it was sent."""
    assert run_exp(CpuLoop(exp_loop), torch.zeros(1), factor).item() == np.float32(factor)


@pytest.fixture
def three_threads() -> Iterator[None]:
    """More than the test process has otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("count", [1, 2, ENOUGH_WORK, ENOUGH_WORK + 7])
def test_a_team_does_everything_once(count: int) -> None:
    """Alone and on a team: no place is left out, none is done twice."""
    out = torch.zeros(count, dtype=torch.int64)
    CpuLoop(count_loop)(count, out.data_ptr(), count)
    assert torch.equal(out, torch.ones_like(out))


def test_without_libgomp_one_thread_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that brings another runtime."""

    def no_library(name: str, **_options: object) -> None:
        raise OSError(name)

    cpu_loop._team.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    try:
        assert cpu_loop._team() is None
        out = torch.zeros(ENOUGH_WORK, dtype=torch.int64)
        CpuLoop(count_loop)(len(out), out.data_ptr(), len(out))
        assert torch.equal(out, torch.ones_like(out))
    finally:
        monkeypatch.undo()
        cpu_loop._team.cache_clear()
        cpu_loop._team()


def test_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles at every start."""
    monkeypatch.setattr(caching.FunctionCache, "_impl_class", _NoPlace)
    assert run_exp(CpuLoop(exp_loop), torch.zeros(1), 2.0).item() == 2.0


class _NoPlace:
    """numba's answer on a read-only machine."""

    def __init__(self, function: object) -> None:
        raise RuntimeError(function)
