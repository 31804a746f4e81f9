"""Loops over raw memory for the CPU path: compiled by numba once a machine, run by torch's own OpenMP threads.

Between the base's matrices, which leave no cache line of anything else behind, each torch call costs some tens of microseconds. A loop
here is one call an op, a few microseconds each. It takes int64 arguments: addresses, sizes, and floats as their bits.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import llvmlite.binding as llvm
import numpy as np
import torch
from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

MATH: Final = {"contract", "reassoc", "nsz", "arcp"}
"""Sums may be reordered into vectors. NaN and infinity keep their meaning."""
f32: Final = np.float32
ENOUGH_WORK: Final = 1 << 15
"""Elements below which one thread is done before a second one has begun."""


LOOPS: Final[list[CpuLoop]] = []
"""All that were defined, for ``compile_loops``."""


def compile_loops() -> None:
    """Compile every loop that is imported, so that no request waits for it: seconds once a machine, a moment after that."""
    for loop in LOOPS:
        loop.compiled  # noqa: B018 asking for it is what compiles


def has_team() -> bool:
    """Whether loops run on all of torch's threads; without a libgomp in torch each has one."""
    return _team() is not None


class CpuLoop:
    """A compiled loop. ``loop(work, *arguments)`` runs it on as many threads as ``work`` elements are worth; the loop calls ``share``."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__doc__ = function.__doc__
        LOOPS.append(self)

    def __call__(self, work: int, *arguments: int) -> None:
        """Run. Every address must stay valid until it returns, which is when all threads are done."""
        entry, alone, team = self.compiled
        packed = (ctypes.c_int64 * len(arguments))(*arguments)
        threads = torch.get_num_threads() if work >= ENOUGH_WORK and team is not None else 1
        if threads == 1 or team is None:
            alone(packed)
        else:
            team(entry, packed, threads, 0)

    def prepare(self, *arguments: int) -> LoopCall:
        """The call for a ``LoopProgram``. Every address must stay valid as long as the program."""
        return LoopCall(entry=self.compiled[0], arguments=(ctypes.c_int64 * len(arguments))(*arguments))

    @functools.cached_property
    def compiled(self) -> tuple[int, Callable[..., None], Callable[..., None] | None]:
        """(address, call on this thread, call on a team or None); the machine code is kept beside the source for the next start."""
        team = _team()
        signature = types.void(types.CPointer(types.int64))
        options = {"error_model": "numpy", "fastmath": MATH}
        try:
            entry: int = cfunc(signature, cache=True, **options)(self._function).address
        except RuntimeError:  # neither the source's folder nor the user's cache can be written
            entry = cfunc(signature, **options)(self._function).address
        # A loop this short keeps the interpreter's lock: to hand it over and get it back takes longer.
        return entry, ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(entry), team


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCall:
    """A loop and its arguments."""

    entry: int
    """Address of the machine code."""
    arguments: ctypes.Array[ctypes.c_int64]


@functools.cache
def _team() -> Callable[..., None] | None:
    """``GOMP_parallel`` of the libgomp that torch has loaded: ``(loop, arguments, threads, flags)``. None where there is none.

    Also tells LLVM where a loop finds its place in the team, and where the others.
    """
    places = ("omp_get_thread_num", "omp_get_num_threads", "GOMP_barrier")
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in places]
        team: Callable[..., None] | None = library.GOMP_parallel
        library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
    except (OSError, AttributeError):
        addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in ALONE]
        team = None
    for name, address in zip(places, addresses, strict=True):
        llvm.add_symbol(name, address)
    return team


ALONE: Final = (
    ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 0),
    ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 1),
    ctypes.CFUNCTYPE(None)(lambda: None),
)
"""Thread 0 of 1, who waits for nobody, for where torch brings no libgomp."""
thread_num: Final = types.ExternalFunction("omp_get_thread_num", types.int32())
num_threads: Final = types.ExternalFunction("omp_get_num_threads", types.int32())
wait_for_all: Final = types.ExternalFunction("GOMP_barrier", types.void())


def float_bits(value: float) -> int:
    """A float as an argument of a loop, which reads it by ``float_from``."""
    return int.from_bytes(struct.pack("<f", value), "little", signed=True)


def _pointer(element: Any) -> Any:  # noqa: ANN401 numba's types have none
    """A function of a compiled loop: int64 address → pointer to such elements."""

    @intrinsic
    def cast(_context: Any, _address: Any) -> Any:  # noqa: ANN401
        target = types.CPointer(element)

        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(arguments[0], context.get_value_type(target))

        return target(types.int64), build

    return cast


floats, ints, longs = _pointer(types.float32), _pointer(types.int32), _pointer(types.int64)


@intrinsic
def float_of_bits(_context: Any, _bits: Any) -> Any:  # noqa: ANN401
    """Within a loop: the float whose bits an int32 holds."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), build


@njit(inline="always")
def float_from(argument):  # type: ignore[no-untyped-def]
    """Within a loop: the float that ``float_bits`` packed."""
    return float_of_bits(np.int32(argument))


@njit(inline="always")
def share(count):  # type: ignore[no-untyped-def]
    """Within a loop: (first, end) of this thread's part of ``count``."""
    place, threads = np.int64(thread_num()), np.int64(num_threads())
    return count * place // threads, count * (place + 1) // threads


LOG2_E, LN2_HIGH, LN2_LOW = f32(1.44269504), f32(0.693359375), f32(-2.12194440e-4)
EXP_0, EXP_1, EXP_2 = f32(5.0000001201e-1), f32(1.6666665459e-1), f32(4.1665795894e-2)
EXP_3, EXP_4, EXP_5 = f32(8.3334519073e-3), f32(1.3981999507e-3), f32(1.9875691500e-4)
LEAST, MOST = f32(-87.0), f32(88.0)


@njit(inline="always", fastmath={"contract"})
def exp(x):  # type: ignore[no-untyped-def]
    """Within a loop: eˣ, clamped to what fp32 holds, within 2 units in the last place (the polynomial of Cephes' ``expf``).

    The compiler turns it into vectors, which it cannot do with a call of the C library.
    """
    x = min(max(x, LEAST), MOST)
    power = np.floor(x * LOG2_E + f32(0.5))
    rest = x - power * LN2_HIGH - power * LN2_LOW
    series = ((((EXP_5 * rest + EXP_4) * rest + EXP_3) * rest + EXP_2) * rest + EXP_1) * rest + EXP_0
    mantissa = series * rest * rest + rest + f32(1.0)
    return mantissa * float_of_bits((np.int32(power) + np.int32(127)) << np.int32(23))
