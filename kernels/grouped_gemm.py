"""Many small matrix products in one call on CPU: a compiled loop where each has one row, else MKL's batched sgemm, else torch.

Measured at one row a product: the batched call takes half the time of a loop of ``addmm``, and ``y = x @ A.T`` half that of ``A @ x``.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch

from kernels.lora_loop import LoopWave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    Ints = NDArray[np.int64]
    Sgemm = Callable[..., Any]

ROW_MAJOR, KEEP, TRANSPOSE = 101, 111, 112


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """N products of a run of token rows with a piece of an adapter's matrix; all arrays [N] int64.

    shrink: ``h[rows, column : column + ranks] = x[rows] @ W.T`` · expand: ``out[rows, out_column : out_column + width] += h[…] @ W``,
    where ``W`` is ``arena[weight : weight + ranks · width]`` as [ranks, width].
    """

    kind: Literal["shrink", "expand"]
    start: Ints
    rows: Ints
    column: Ints
    weight: Ints
    ranks: Ints
    width: Ints
    out_column: Ints
    activation_columns: int
    """Columns of ``x`` of a shrink, of ``out`` of an expand."""


class ProductWave(Protocol):
    """Products that may run in any order; its length is their number."""

    def __len__(self) -> int: ...

    def run(self, activation: Tensor) -> None:
        """Multiply: ``activation`` is ``x`` of a shrink or ``out`` of an expand, [T, activation_columns], contiguous."""


def waves_of(products: Products, bounds: Sequence[tuple[int, int]], *, arena: Tensor, scratch: Tensor) -> list[ProductWave | None]:
    """One wave for each interval of the products, None where it is empty. ``arena`` and ``scratch`` must stay where they are."""
    if arena.dtype == torch.float32 and bool((products.rows == 1).all()):
        return [LoopWave(products, low, high, arena, scratch) if low < high else None for low, high in bounds]
    sgemm = batched_sgemm()
    if sgemm is None or arena.dtype != torch.float32:
        return [TorchWave(products, low, high, arena, scratch) if low < high else None for low, high in bounds]
    arrays = _SgemmArrays(products, arena, scratch)
    return [SgemmWave(sgemm, arrays, low, high) if low < high else None for low, high in bounds]


class SgemmWave:
    """One call of the batched sgemm. Owned by the engine thread: it rewrites its own pointers."""

    __slots__ = ("_address", "_arguments", "_arrays", "_moving", "_offsets", "_sgemm")

    def __init__(self, sgemm: Sgemm, arrays: _SgemmArrays, low: int, high: int) -> None:
        self._sgemm = sgemm
        self._arrays = arrays  # keeps alive what the arguments point into
        self._offsets = arrays.offsets[low:high]
        self._moving = arrays.moving[low:high]
        self._arguments = arrays.arguments(low, high)
        self._address = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def run(self, activation: Tensor) -> None:
        """Multiply, at the cost of one numpy addition when the activation is not where it was."""
        address = activation.data_ptr()
        if address != self._address:
            np.add(self._offsets, address, out=self._moving)
            self._address = address
        self._sgemm(*self._arguments)


class _SgemmArrays:
    """Sizes and addresses of all products as the C interface wants them; ``moving`` = ``offsets`` + the activation's address."""

    def __init__(self, products: Products, arena: Tensor, scratch: Tensor) -> None:
        expands = products.kind == "expand"
        activation_row, scratch_row = products.activation_columns, scratch.shape[1]
        self._keep = (arena, scratch)
        weights = arena.data_ptr() + 4 * products.weight
        hidden = scratch.data_ptr() + 4 * (products.start * scratch_row + products.column)
        self.offsets = 4 * (products.start * activation_row + (products.out_column if expands else 0))
        self.moving = np.zeros_like(self.offsets)
        size = len(weights)
        left, right = (hidden, self.moving) if expands else (self.moving, hidden)
        left_row, right_row = (scratch_row, activation_row) if expands else (activation_row, scratch_row)
        ints = [np.full(size, value, dtype=np.int32) for value in (KEEP, KEEP if expands else TRANSPOSE, left_row, right_row, 1)]
        keep, transpose, left_stride, right_stride, ones = ints
        rows, ranks, width = (array.astype(np.int32) for array in (products.rows, products.ranks, products.width))
        outer, inner = (width, ranks) if expands else (ranks, width)
        alpha, beta = np.ones(size, dtype=np.float32), np.full(size, float(expands), dtype=np.float32)
        self._arrays: tuple[NDArray[Any], ...] = (
            *(keep, transpose, rows, outer, inner, alpha),
            *(left, left_stride, weights, width, beta, right, right_stride, ones),
        )
        self._addresses = [(array.ctypes.data, array.itemsize) for array in self._arrays]

    def arguments(self, low: int, high: int) -> tuple[Any, ...]:
        """Arguments of the C call for the products in [low, high): each is a group of one."""
        pointers = [ctypes.c_void_p(address + low * itemsize) for address, itemsize in self._addresses]
        return ctypes.c_int(ROW_MAJOR), *pointers[:-1], ctypes.c_int(high - low), pointers[-1]


class TorchWave:
    """The same products one by one in torch, for builds without the symbol and for other dtypes."""

    __slots__ = ("_expands", "_parts")

    def __init__(self, products: Products, low: int, high: int, arena: Tensor, scratch: Tensor) -> None:
        self._expands = products.kind == "expand"
        self._parts = [_torch_part(products, at, arena, scratch) for at in range(low, high)]

    def __len__(self) -> int:
        return len(self._parts)

    def run(self, activation: Tensor) -> None:
        """Multiply in fp32."""
        for rows, columns, hidden, weight in self._parts:
            if self._expands:
                activation[rows, columns].add_(hidden @ weight.float())
            else:
                hidden.copy_(activation[rows].float() @ weight.float().T)


def _torch_part(products: Products, at: int, arena: Tensor, scratch: Tensor) -> tuple[slice, slice, Tensor, Tensor]:
    """Token rows, output columns, their view of ``h`` and the matrix of one product."""
    start, rows, column, weight, ranks, width, out_column = (
        int(array[at])
        for array in (products.start, products.rows, products.column, products.weight, products.ranks, products.width, products.out_column)
    )
    hidden = scratch[start : start + rows, column : column + ranks]
    matrix = arena[weight : weight + ranks * width].view(ranks, width)
    return slice(start, start + rows), slice(out_column, out_column + width), hidden, matrix


@cache
def batched_sgemm() -> Sgemm | None:
    """``cblas_sgemm_batch`` of the MKL inside torch's own library, or None: no MKL, 64-bit ints, or a wrong answer to a small question."""
    if not torch.backends.mkl.is_available() or "ILP64" in torch.__config__.show():
        return None
    try:
        sgemm: Sgemm = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).cblas_sgemm_batch
    except (OSError, AttributeError):
        return None
    sgemm.restype = None  # type: ignore[attr-defined]
    return sgemm if _answers(sgemm) else None


def _answers(sgemm: Sgemm) -> bool:
    """Whether ``sgemm`` multiplies two small matrices of different sizes as it should."""
    one, two = np.ones(1, dtype=np.int64), np.full(1, 2, dtype=np.int64)
    none = np.zeros(1, dtype=np.int64)
    arena, x = torch.arange(1.0, 7.0), torch.tensor([[1.0, -1.0, 2.0]])
    scratch = torch.full((1, 2), torch.nan)
    products = Products(
        kind="shrink", start=none, rows=one, column=none, weight=none, ranks=two, width=one + two, out_column=none, activation_columns=3
    )
    SgemmWave(sgemm, _SgemmArrays(products, arena, scratch), 0, 1).run(x)
    return bool(torch.equal(scratch, x @ arena.view(2, 3).T))
