from __future__ import annotations

import gc
import weakref

import pytest
import torch

from engine.models import linear
from engine.models.linear import Int8Linear, PackedLinear, PlainLinear, can_pack, make_linear


@pytest.fixture
def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """weight [24, 40], bias [24], x [T, 40] at an odd T."""
    generator = torch.Generator().manual_seed(1)
    weight, bias, x = (torch.randn(size, generator=generator) for size in ((24, 40), (24,), (17, 40)))
    return weight, bias, x


@pytest.mark.parametrize("rows", [0, 1, 16, 17])
@pytest.mark.parametrize("given", ["bias", "no bias"])
def test_packed_equals_plain(operands: tuple[torch.Tensor, ...], rows: int, given: str) -> None:
    """The packed product is the plain one at every number of rows, with a bias and without."""
    weight, bias, x = operands
    packed = make_linear(weight, bias if given == "bias" else None)
    assert isinstance(packed, PackedLinear)
    expected = x[:rows] @ weight.T + (bias if given == "bias" else 0)
    torch.testing.assert_close(packed(x[:rows]), expected, atol=1e-5, rtol=1e-5)


def test_packing_lets_go_of_the_weight(operands: tuple[torch.Tensor, ...]) -> None:
    """Memory is not doubled: nothing refers to the unpacked weight, and as many bytes are held as it had."""
    weight = operands[0].clone()
    alive, size = weakref.ref(weight), weight.nbytes
    packed = make_linear(weight)
    del weight
    gc.collect()
    assert alive() is None
    assert packed.nbytes == size


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


@pytest.mark.parametrize("fault", ["raises", "wrong numbers"])
def test_falls_back_to_plain(operands: tuple[torch.Tensor, ...], monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A build of torch whose private ops fail or lie gets plain weights, and right answers."""

    def broken(self: PackedLinear, x: torch.Tensor) -> torch.Tensor:
        if fault == "raises":
            raise RuntimeError("no such op")
        return torch.zeros(len(x), 24)

    weight, bias, x = operands
    monkeypatch.setattr(PackedLinear, "__call__", broken)
    can_pack.cache_clear()
    try:
        fallback = make_linear(weight, bias)
    finally:
        monkeypatch.undo()
        can_pack.cache_clear()
    assert isinstance(fallback, PlainLinear)
    torch.testing.assert_close(fallback(x), x @ weight.T + bias)


def test_other_types_stay_plain(operands: tuple[torch.Tensor, ...]) -> None:
    """bf16 weights are not packed, whatever ``cpu_weights`` says."""
    weight = operands[0].bfloat16()
    assert isinstance(make_linear(weight), PlainLinear)
    assert isinstance(make_linear(weight, cpu_weights="int8"), PlainLinear)
    assert linear.can_pack()
