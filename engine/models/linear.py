"""y = x · Wᵀ + b, the one place that knows how a weight is held: plain, packed for oneDNN, or int8."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

CpuWeights = Literal["fp32", "int8", "plain"]
"""How fp32 weights are held on the CPU. ``plain``: as they come, for a pass with gradients, which the packed forms have not."""
PACK_ROWS = 16
"""Batch size that packed weights are laid out for; other sizes work too."""
PROBE_TOLERANCE = 1e-3


class Linear(Protocol):
    """A projection, ready to apply. Immutable."""

    nbytes: int
    """Bytes it holds."""

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] → [T, out]."""
        ...


def make_linear(weight: Tensor, bias: Tensor | None = None, *, cpu_weights: CpuWeights = "fp32") -> Linear:
    """The fastest form for where ``weight`` [out, in] lies; a packed one keeps no reference to it.

    On the CPU, fp32 weights are packed where this build of torch can (``can_pack``).
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or cpu_weights == "plain":
        return PlainLinear(weight, bias)
    if cpu_weights == "int8":
        return Int8Linear(weight, bias)
    return PackedLinear(weight, bias) if can_pack() else PlainLinear(weight, bias)


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


class PackedLinear:
    """fp32 in oneDNN's blocked layout: some 1.5 times faster than plain at 16 rows, as many bytes."""

    __slots__ = ("apply", "bias", "nbytes", "packed")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)  # noqa: SLF001 no public name; probed by can_pack
        self.apply = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001 likewise
        self.bias = bias
        self.nbytes = weight.nbytes + _nbytes(bias)

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] → [T, out]."""
        return self.apply(x, self.packed, self.bias, "none", [], "")  # type: ignore[no-any-return]


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


@functools.cache
def can_pack() -> bool:
    """Whether this build of torch has oneDNN's packed product and it gives the right numbers on a small matrix."""
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(size, generator=generator) for size in ((24, 16), (24,), (5, 16)))
    try:
        found = PackedLinear(weight, bias)(x)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(found, functional.linear(x, weight, bias), atol=PROBE_TOLERANCE)


def _nbytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.nbytes
