"""The innermost product of compiled loops: a few rows times a panel of weights, its sums in vector registers from first to last.

Four rows by three vectors are twelve sums, which with three vectors of weights and one of x fill AVX2's sixteen registers; twelve products
a pass over seven loads keep both multipliers busy. Written in LLVM's language because its vectoriser does not find this by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

LANES: Final = 8
VECTORS: Final = 3
PANEL: Final = LANES * VECTORS
"""Columns of a panel, which lie side by side for each k."""
UNROLL: Final = 4
"""Steps of k in one turn of the loop."""
INT, INT32, FLOAT, VECTOR, BYTES = (
    ir.IntType(64),
    ir.IntType(32),
    ir.FloatType(),
    ir.VectorType(ir.FloatType(), LANES),
    ir.IntType(8).as_pointer(),
)
FUSED: Final = ("contract",)
"""A product and its sum may become one instruction; nothing may change places, so that a row's bits do not depend on its company."""


def register_tile(num_rows: int, *, lines_ahead: int) -> Callable[..., None]:
    """Within a loop: ``out[r] = start[r] + x[r] · weights`` for ``num_rows`` rows and one panel, summed by k from 0 up.

    Arguments, all int64: address of weights [depth, PANEL], aligned to 32 bytes · of x, and its bytes a row · of start, likewise · of out,
    likewise · depth · address from where ``lines_ahead`` cache lines are fetched in each turn, towards the weights that come next.
    Bytes: 4·depth·PANEL. Flops: 2·num_rows·depth·PANEL.
    """

    @intrinsic
    def tile(_, weights, x, x_row, start, start_row, out, out_row, depth, ahead):  # type: ignore[no-untyped-def]  # noqa: ARG001, ANN202 numba reads the names
        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 numba's types have none
            _Tile(builder, num_rows, lines_ahead, arguments).build()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), build

    return tile  # type: ignore[no-any-return]


class _Tile:
    """Writes one tile's instructions where ``builder`` stands."""

    def __init__(self, builder: Any, num_rows: int, lines_ahead: int, arguments: Any) -> None:  # noqa: ANN401
        self.builder, self.num_rows, self.lines_ahead = builder, num_rows, lines_ahead
        self.weights, x, x_row, self.start, self.start_row, self.out, self.out_row, self.depth, self.ahead = arguments
        self.x = [self.at(x, x_row, row) for row in range(num_rows)]

    def build(self) -> None:
        """All turns, the steps that are left, and the sums to where they go."""
        sums = [ir.Constant(VECTOR, [0.0] * LANES)] * (self.num_rows * VECTORS)
        k, sums = self.loop(number(0), self.builder.and_(self.depth, number(-UNROLL)), UNROLL, sums)
        _, sums = self.loop(k, self.depth, 1, sums)
        for row in range(self.num_rows):
            source, target = self.at(self.start, self.start_row, row), self.at(self.out, self.out_row, row)
            for vector in range(VECTORS):
                begin = self.load(VECTOR, source, 4 * LANES * vector)
                total = self.builder.fadd(begin, sums[row * VECTORS + vector], flags=FUSED)
                self.builder.store(total, self.pointer(VECTOR, target, 4 * LANES * vector), align=4)

    def loop(self, begin: Any, end: Any, steps: int, sums: list[Any]) -> tuple[Any, list[Any]]:  # noqa: ANN401
        """``for k in range(begin, end, steps)``; returns where k and the sums stand after it."""
        builder, before = self.builder, self.builder.block
        head, body, done = (builder.append_basic_block(name) for name in ("tile.head", "tile.body", "tile.done"))
        builder.branch(head)
        builder.position_at_end(head)
        k, carried = builder.phi(INT), [builder.phi(VECTOR) for _ in sums]
        builder.cbranch(builder.icmp_signed("<", k, end), body, done)
        builder.position_at_end(body)
        weights, o_x = self.at(self.weights, k, 4 * PANEL), builder.mul(k, number(4))
        after = carried
        for step in range(steps):
            after = self.step(weights, o_x, step, after)
        if steps == UNROLL:
            self.fetch_ahead(k)
        following = builder.add(k, number(steps))
        builder.branch(head)
        for phi, first, last in zip([k, *carried], [begin, *sums], [following, *after], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(last, body)
        builder.position_at_end(done)
        return k, carried

    def step(self, weights: Any, o_x: Any, step: int, sums: list[Any]) -> list[Any]:  # noqa: ANN401
        """One k: its row of the panel times each x."""
        columns = [self.load(VECTOR, weights, 4 * (PANEL * step + LANES * vector), align=4 * LANES) for vector in range(VECTORS)]
        after = []
        for row in range(self.num_rows):
            value = self.spread(self.load(FLOAT, self.builder.add(self.x[row], o_x), 4 * step))
            for vector in range(VECTORS):
                product = self.builder.fmul(columns[vector], value, flags=FUSED)
                after.append(self.builder.fadd(product, sums[row * VECTORS + vector], flags=FUSED))
        return after

    def fetch_ahead(self, k: Any) -> None:  # noqa: ANN401
        """Ask for the next lines from ``ahead``, to read, into the nearest cache."""
        name, kind = "llvm.prefetch.p0i8", ir.FunctionType(ir.VoidType(), [BYTES, INT32, INT32, INT32])
        fetch = self.builder.module.globals.get(name) or ir.Function(self.builder.module, kind, name)
        first = self.at(self.ahead, k, self.lines_ahead * LINE // UNROLL)
        for line in range(self.lines_ahead):
            self.builder.call(fetch, [self.pointer(ir.IntType(8), first, line * LINE), *(ir.Constant(INT32, each) for each in (0, 3, 1))])

    def at(self, address: Any, stride: Any, count: Any) -> Any:  # noqa: ANN401
        """``address + stride · count``; either may be a number."""
        stride, count = (number(each) if isinstance(each, int) else each for each in (stride, count))
        return self.builder.add(address, self.builder.mul(stride, count))

    def pointer(self, kind: Any, address: Any, offset: int) -> Any:  # noqa: ANN401
        return self.builder.inttoptr(self.builder.add(address, number(offset)), kind.as_pointer())

    def load(self, kind: Any, address: Any, offset: int, *, align: int = 4) -> Any:  # noqa: ANN401
        return self.builder.load(self.pointer(kind, address, offset), align=align)

    def spread(self, value: Any) -> Any:  # noqa: ANN401
        """A vector of one float."""
        nothing, first = ir.Constant(VECTOR, ir.Undefined), ir.Constant(INT32, 0)
        lanes = ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES)
        return self.builder.shuffle_vector(self.builder.insert_element(nothing, value, first), nothing, lanes)


LINE: Final = 64
"""Bytes of a cache line."""


def number(value: int) -> Any:  # noqa: ANN401
    """An int64 of the loop."""
    return ir.Constant(INT, value)
