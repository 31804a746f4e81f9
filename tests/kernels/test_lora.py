"""lora_shrink and lora_expand add each adapter's product to its rows and leave the others alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import GROUPS, GroupName, LoraCall, lora_expand, lora_shrink
from kernels.lora_expand import lora_expand_reference, lora_expand_triton
from kernels.lora_shrink import lora_shrink_reference, lora_shrink_triton
from tests.kernels.adapters import MIXES, NUM_ROWS, adapters_of
from tests.kernels.compare import assert_near

Runs = tuple[tuple[int, int, int], ...]
Pair = tuple[Callable[[Tensor, LoraCall], Tensor], Callable[[Tensor, LoraCall, Tensor], None]]
PAIRS: dict[str, Pair] = {
    "reference": (lora_shrink_reference, lora_expand_reference),
    "cpu": (lora_shrink, lora_expand),
    "triton": (lora_shrink_triton, lora_expand_triton),
}
SMALL = (1, 3, 5, 8, 12, 16)
LARGE = (17, 48, 64, 16, 1, 33)


def check(name: str, ranks: tuple[int, ...], runs: Runs, *, groups: tuple[GroupName, ...], dtype: torch.dtype = torch.float32) -> None:
    """Both halves against the product of the matrices; untouched rows bit for bit."""
    shrink, expand = PAIRS[name]
    adapters = adapters_of(ranks, dtype=dtype)
    batch = adapters.batch(runs, capacity=len(runs) + 2)
    base_rows = torch.ones(NUM_ROWS, dtype=torch.bool)
    for start, rows, _ in runs:
        base_rows[start : start + rows] = False
    for group in groups:
        call = batch.call(1, group)
        x, before = torch.randn(NUM_ROWS, call.in_features, dtype=dtype), torch.randn(NUM_ROWS, call.out_columns, dtype=dtype)
        out = before.clone()
        expand(shrink(x, call), call, out)
        assert_near(out, adapters.expected(x, before, runs, 1, call.modules))
        assert torch.equal(out[base_rows], before[base_rows])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("ranks", [SMALL, LARGE], ids=["small", "large"])
def test_adds_the_product(name: str, ranks: tuple[int, ...], mix: str) -> None:
    """All mixes, ranks below and above one block, absent modules, dead segments, NaN around every matrix."""
    # The interpreter is slow: one fused and one plain projection there.
    check(name, ranks, MIXES[mix], groups=("qkv", "down") if name == "triton" else ("qkv", "o", "gate_up", "down"))


@pytest.mark.parametrize("name", PAIRS)
def test_largest_rank(name: str) -> None:
    """Rank 256 beside rank 1."""
    check(name, (256, 1), ((0, 2, 1), (3, 1, 0)), groups=("gate_up",))


# Triton's interpreter multiplies the bits of bf16 as integers.
@pytest.mark.parametrize(("name", "dtype"), [("cpu", torch.bfloat16), ("cpu", torch.float16), ("triton", torch.float16)])
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    """Other dtypes, with ``h`` in fp32."""
    check(name, LARGE, MIXES["identical"], groups=("gate_up",), dtype=dtype)


@pytest.mark.parametrize("mix", [mix for mix in MIXES if MIXES[mix]])
def test_alone_or_in_any_mixture(mix: str) -> None:
    """A row's Triton result is the same bit for bit as when it is alone in the batch."""
    adapters, runs = adapters_of(LARGE), MIXES[mix]
    call = adapters.batch(runs).call(1, "gate_up")
    x, before = torch.randn(NUM_ROWS, call.in_features), torch.randn(NUM_ROWS, call.out_columns)
    together = before.clone()
    lora_expand_triton(lora_shrink_triton(x, call), call, together)
    start, _, slot = runs[-1]
    alone, row = before[start : start + 1].clone(), adapters.batch(((0, 1, slot),)).call(1, "gate_up")
    lora_expand_triton(lora_shrink_triton(x[start : start + 1], row), row, alone)
    assert torch.equal(alone[0], together[start])
    assert not torch.equal(alone[0], before[start])


def test_steps_reuse_a_batch() -> None:
    """The prepared addresses follow inputs and outputs that move."""
    adapters, runs = adapters_of(SMALL), MIXES["uniform"]
    call = adapters.batch(runs).call(0, "qkv")
    held = []
    for _ in range(3):
        x, out = torch.randn(NUM_ROWS, call.in_features), torch.randn(NUM_ROWS, call.out_columns)
        expected = adapters.expected(x, out, runs, 0, call.modules)
        lora_expand(lora_shrink(x, call), call, out)
        assert_near(out, expected)
        held.append((x, out))


@pytest.mark.parametrize("group", GROUPS)
def test_gradient_takes_the_reference(group: GroupName) -> None:
    """The gradient in the input and in the arena is that of the dense product."""
    adapters, runs = adapters_of(SMALL), MIXES["skewed"]
    arena = adapters.arena.clone().requires_grad_()
    call = type(batch := adapters.batch(runs))(arena=arena, tables=batch.tables, segments=batch.segments, version=1).call(1, group)
    x = torch.randn(NUM_ROWS, call.in_features, requires_grad=True)
    with torch.enable_grad():
        out = torch.zeros(NUM_ROWS, call.out_columns, requires_grad=True).clone()
        lora_expand(lora_shrink(x, call), call, out)
        out.square().sum().backward()
        grad, x.grad = x.grad, None
        adapters.expected(x, torch.zeros_like(out), runs, 1, call.modules).square().sum().backward()
    assert grad is not None
    assert x.grad is not None
    assert_near(grad, x.grad)
    assert arena.grad is not None
    assert arena.grad.isfinite().all()
    assert arena.grad.abs().max() > 0


def test_refuses_a_foreign_input() -> None:
    """A wrong width, a wrong dtype and the scratch of another batch are named."""
    adapters = adapters_of(SMALL)
    call = adapters.batch(MIXES["identical"]).call(0, "qkv")
    with pytest.raises(ValueError, match="lora_shrink: x must be as wide"):
        lora_shrink(torch.randn(7, 41), call)
    with pytest.raises(ValueError, match="one dtype"):
        lora_shrink(torch.randn(7, 40, dtype=torch.float16), call)
    with pytest.raises(ValueError, match="lora_expand: h must be"):
        lora_expand(torch.randn(7, 40), call, torch.zeros(7, call.out_columns))
