"""Compiled loops one after another in a single call, so that no thread goes back to Python between them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.cpu_loop import ENOUGH_WORK, CpuLoop, longs, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.cpu_loop import LoopCall


class LoopProgram:
    """Calls that one team makes in order: each begins when every thread is done with the one before. Keeps their arguments alive."""

    __slots__ = ("_calls", "_table")

    def __init__(self, calls: Sequence[LoopCall]) -> None:
        self._calls = tuple(calls)
        flat = [address for call in calls for address in (call.entry, ctypes.addressof(call.arguments))]
        self._table = (ctypes.c_int64 * len(flat))(*flat)

    def __len__(self) -> int:
        return len(self._calls)

    def run(self) -> None:
        """All calls, on all of torch's threads."""
        program_loop(ENOUGH_WORK, ctypes.addressof(self._table), len(self._calls))


@CpuLoop
def program_loop(a):  # type: ignore[no-untyped-def]
    """Every thread takes its share of every call."""
    table, count = longs(a[0]), a[1]
    for at in range(count):
        call(table[2 * at], table[2 * at + 1])
        wait_for_all()


@intrinsic
def call(_context: Any, _entry: Any, _arguments: Any) -> Any:  # noqa: ANN401 numba's types have none
    """Within a loop: the loop at ``entry`` with the arguments at that address."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        numbers = ir.IntType(64).as_pointer()
        entry = builder.inttoptr(arguments[0], ir.FunctionType(ir.VoidType(), [numbers]).as_pointer())
        builder.call(entry, [builder.inttoptr(arguments[1], numbers)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build
