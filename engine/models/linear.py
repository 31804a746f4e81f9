"""y = x · Wᵀ + b, the one place that knows how a weight is held: plain, in panels, or int8."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch.nn import functional

from kernels.cpu_loop import has_team
from kernels.panels import Panels

if TYPE_CHECKING:
    from torch import Tensor

CpuWeights = Literal["fp32", "int8", "plain"]
"""How fp32 weights are held on the CPU. ``plain``: as they come, for a pass with gradients, which the other forms have not."""


class Linear(Protocol):
    """A projection, ready to apply. Immutable."""

    nbytes: int
    """Bytes it holds."""

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] → [T, out]."""
        ...


def make_linear(weight: Tensor, bias: Tensor | None = None, *, cpu_weights: CpuWeights = "fp32") -> Linear:
    """The fastest form for where ``weight`` [out, in] lies; only the plain one keeps a reference to it.

    On the CPU, fp32 weights lie in panels where compiled loops have all of torch's threads (``has_team``).
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or cpu_weights == "plain":
        return PlainLinear(weight, bias)
    if cpu_weights == "int8":
        return Int8Linear(weight, bias)
    return Panels(weight, bias) if has_team() else PlainLinear(weight, bias)


class PlainLinear:
    """Weights as they come."""

    __slots__ = ("bias", "nbytes", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self.nbytes = weight.nbytes + _nbytes(bias)

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] → [T, out]."""
        return functional.linear(x, self.weight, self.bias)


class Int8Linear:
    """int8 weights with a scale a row, activations quantised on the fly: an opt-in that costs accuracy."""

    __slots__ = ("apply", "nbytes", "packed", "reduce_range")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scales = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / 127
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch means to replace quantised tensors; the packed product has no other maker yet.
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantised, bias)
        self.apply = torch.ops.quantized.linear_dynamic.default
        # Without VNNI the 16-bit sums of int8 products overflow, so activations keep 7 bits.
        self.reduce_range = not torch.cpu._is_vnni_supported()  # noqa: SLF001 no public name
        self.nbytes = weight.numel() + scales.nbytes + _nbytes(bias)

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] → [T, out]."""
        return self.apply(x, self.packed, self.reduce_range)  # type: ignore[no-any-return]


def _nbytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.nbytes
