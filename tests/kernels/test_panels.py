"""The base's products in panels are the plain ones, and a row's bits do not depend on its company."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels.panels import Panels

SIZES = [(24, 40), (96, 577), (64, 64), (100, 3), (5, 1), (49, 300), (1, 96), (120, 192)]
"""(out, in): whole panels and parts of one, whole blocks of k and rests of 1, 2 and 3."""


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(("width", "depth"), SIZES)
@pytest.mark.parametrize("given", ["bias", "no bias"])
def test_panels_are_the_plain_product(width: int, depth: int, given: str) -> None:
    """At every number of rows up to two blocks of them, and as near to fp64 as the terms' size allows."""
    weight, bias = torch.randn(width, depth), torch.randn(width)
    panels = Panels(weight, bias if given == "bias" else None)
    for num_rows in (0, 1, 2, 3, 4, 7, 16, 63, 64, 65, 131):
        x = torch.randn(num_rows, depth)
        expected = x.double() @ weight.double().T + (bias.double() if given == "bias" else 0)
        torch.testing.assert_close(panels(x).double(), expected, rtol=0, atol=2e-6 * depth**0.5 * 4)


@pytest.mark.parametrize(("width", "depth"), SIZES)
def test_a_row_alone_has_the_bits_it_has_in_company(width: int, depth: int) -> None:
    """Whichever tile computes it, at whatever place."""
    panels, x = Panels(torch.randn(width, depth)), torch.randn(131, depth)
    together = panels(x)
    for row in (0, 1, 3, 63, 64, 129, 130):
        assert torch.equal(panels(x[row : row + 1])[0], together[row])
    for num_rows in (2, 3, 5, 17, 66):
        assert torch.equal(panels(x[-num_rows:]), together[-num_rows:])


def test_rows_may_lie_apart() -> None:
    """x as a view of a wider tensor; what lies between its rows does not matter."""
    panels, wide = Panels(torch.randn(30, 50)), torch.full((9, 64), torch.nan)
    wide[:, :50] = torch.randn(9, 50)
    assert torch.equal(panels(wide[:, :50]), panels(wide[:, :50].contiguous()))


def test_a_bad_number_stays_in_its_row() -> None:
    """NaN and infinity in one row show in no other, and are not lost in it."""
    panels, x = Panels(torch.randn(30, 50)), torch.randn(6, 50)
    clean = panels(x)
    x[2, 7], x[4, 9] = torch.nan, torch.inf
    found = panels(x)
    assert torch.equal(found[[0, 1, 3, 5]], clean[[0, 1, 3, 5]])
    assert found[2].isnan().all()
    assert not found[4].isfinite().any()


@pytest.mark.parametrize(
    "x",
    [torch.zeros(3), torch.zeros(2, 4), torch.zeros(3, 2).T, torch.zeros(2, 3).double()],
    ids=["a vector", "too wide", "turned", "double"],
)
def test_other_inputs_are_refused(x: torch.Tensor) -> None:
    """Of the wrong width, order or type."""
    with pytest.raises(ValueError, match="panels: x must be"):
        Panels(torch.zeros(5, 3))(x)
