"""Loops in one call do what they do one by one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernels.cpu_loop import CpuLoop, longs, share
from kernels.loop_program import LoopProgram


def sum_loop(a: Any) -> None:
    """Each output is the sum of all inputs plus its place: right only when all inputs are there."""
    x, out, count = longs(a[0]), longs(a[1]), a[2]
    total = 0
    for i in range(count):
        total += x[i]
    first, end = share(count)
    for i in range(first, end):
        out[i] = total + i


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
def test_each_call_sees_all_of_the_one_before() -> None:
    """Two hundred sums of sums, modulo 2^64, twice over: a thread that runs ahead reads what is not there yet."""
    loop, count = CpuLoop(sum_loop), 37
    one, two = torch.arange(count), torch.zeros(count, dtype=torch.int64)
    calls = [loop.prepare(source.data_ptr(), target.data_ptr(), count) for source, target in ((one, two), (two, one))] * 100
    expected = torch.arange(count)
    program = LoopProgram(calls)
    del calls
    gc.collect()
    for _ in range(2):
        program.run()
        for _ in range(200):
            expected = expected.sum() + torch.arange(count)
    assert len(program) == 200
    assert torch.equal(one, expected)


def test_an_empty_program_does_nothing() -> None:
    """As one with no call would."""
    LoopProgram([]).run()
