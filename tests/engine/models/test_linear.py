from __future__ import annotations

import gc
import weakref

import pytest
import torch

from engine.models import linear
from engine.models.linear import Int8Linear, PlainLinear, make_linear
from kernels.panels import Panels


@pytest.fixture
def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """weight [24, 40], bias [24], x [T, 40] at an odd T."""
    generator = torch.Generator().manual_seed(1)
    weight, bias, x = (torch.randn(size, generator=generator) for size in ((24, 40), (24,), (17, 40)))
    return weight, bias, x


def test_panels_let_go_of_the_weight(operands: tuple[torch.Tensor, ...]) -> None:
    """Memory is not doubled: nothing refers to the weight as it came, and few more bytes are held than it had."""
    weight = operands[0].clone()
    alive, size = weakref.ref(weight), weight.nbytes
    panels = make_linear(weight)
    assert isinstance(panels, Panels)
    del weight
    gc.collect()
    assert alive() is None
    assert size <= panels.nbytes <= size + 4 * 24 + 64


def test_int8_is_close_and_a_quarter_of_the_bytes(operands: tuple[torch.Tensor, ...]) -> None:
    """Within 3 % of the largest output (7 or 8 bits of activation, 8 of weight), and rows of zeros stay zero."""
    weight, bias, x = operands
    weight = weight.clone()
    weight[3] = 0
    rounded = make_linear(weight, bias, cpu_weights="int8")
    assert isinstance(rounded, Int8Linear)
    expected = x @ weight.T + bias
    assert (rounded(x) - expected).abs().max() < 0.03 * expected.abs().max()
    assert (rounded(x) - expected).abs().max() > 0
    torch.testing.assert_close(rounded(x)[:, 3], expected[:, 3], atol=1e-6, rtol=0)
    assert rounded.nbytes == weight.numel() + 4 * 24 + bias.nbytes


def test_plain_where_a_loop_has_one_thread(operands: tuple[torch.Tensor, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch without libgomp keeps its own product, which has all of its threads."""
    weight, bias, x = operands
    monkeypatch.setattr(linear, "has_team", lambda: False)
    fallback = make_linear(weight, bias)
    assert isinstance(fallback, PlainLinear)
    torch.testing.assert_close(fallback(x), x @ weight.T + bias)


def test_other_types_stay_plain(operands: tuple[torch.Tensor, ...]) -> None:
    """bf16 weights stay as they come, whatever ``cpu_weights`` says."""
    weight = operands[0].bfloat16()
    assert isinstance(make_linear(weight), PlainLinear)
    assert isinstance(make_linear(weight, cpu_weights="int8"), PlainLinear)
