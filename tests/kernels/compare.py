"""How near two results must be."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {
    torch.float32: 2e-5,  # a few hundred terms of size one, summed in another order
    torch.bfloat16: 3e-2,  # 8 bits of mantissa, rounded at different places
    torch.float16: 4e-3,  # 11 bits, likewise
}


def assert_near(actual: Tensor, expected: Tensor) -> None:
    """Equal but for rounding; NaN is never equal."""
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
