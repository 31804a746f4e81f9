"""Every Triton kernel against its reference at a real model's sizes: ``python -m kernels.gpu_check`` on a machine with CUDA.

Prints the largest error beside the largest value, the time of one call and GB/s; ends with 1 where an error is too large, 2 without a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from kernels.attention_decode import attention_decode, attention_decode_reference
from kernels.attention_prefill import attention_prefill, attention_prefill_reference
from kernels.kv_write import kv_write, kv_write_reference
from kernels.lora_batch import LoraBatch, LoraTables, cut_runs
from kernels.lora_expand import lora_expand, lora_expand_reference
from kernels.lora_layout import BLOCK_RANKS, MODULES
from kernels.lora_shrink import lora_shrink, lora_shrink_reference
from kernels.rms_norm import rms_norm, rms_norm_reference
from kernels.rope import rope, rope_reference
from kernels.silu_mul import silu_mul, silu_mul_reference

if TYPE_CHECKING:
    from torch import Tensor

# Llama 3 8B
HIDDEN, HEADS, KV_HEADS, HEAD, MLP = 4096, 32, 8, 128, 14336
PAGE_TOKENS, NUM_PAGES = 16, 4096
RANKS = (8, 16, 32, 64, 1, 17, 128, 256)
TIMED_RUNS = 20
TOLERANCE = {torch.bfloat16: 2e-2, torch.float32: 1e-4}
"""Of the largest value: the rounding of one bf16, or of a few thousand fp32 terms in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One op at one size; both callables return what they made or changed."""

    name: str
    op: Callable[[], Tensor]
    reference: Callable[[], Tensor]
    moved_bytes: int


def main() -> int:
    """Run all checks in bf16, then in fp32."""
    if not torch.cuda.is_available():
        sys.stdout.write("no CUDA device\n")
        return 2
    sys.stdout.write(f"{torch.cuda.get_device_name()}\n{'op':30}{'dtype':>10}{'error':>12}{'of':>10}{'µs':>10}{'GB/s':>8}\n")
    with torch.no_grad(), torch.device("cuda"):
        torch.manual_seed(0)
        passed = [report(case, dtype) for dtype in TOLERANCE for case in checks(dtype)]
        passed += [report(case, dtype) for dtype in TOLERANCE for case in graph_checks(dtype)]
    sys.stdout.write(f"{sum(passed)} of {len(passed)} checks passed\n")
    return 0 if all(passed) else 1


def report(case: Check, dtype: torch.dtype) -> bool:
    """Compare, time, print one line; whether the error is small enough."""
    expected, actual = case.reference().float(), case.op().float()
    error, largest = float((actual - expected).abs().max()), float(expected.abs().max())
    passed = error <= TOLERANCE[dtype] * max(1.0, largest)  # NaN fails
    elapsed_us = time_us(case.op)
    speed = case.moved_bytes / elapsed_us / 1e3
    name, verdict = str(dtype).removeprefix("torch."), "" if passed else "  WRONG"
    sys.stdout.write(f"{case.name:30}{name:>10}{error:12.2e}{largest:10.3g}{elapsed_us:10.1f}{speed:8.0f}{verdict}\n")
    return passed


def time_us(op: Callable[[], Tensor]) -> float:
    """Mean time of one call, compiled before, launch included."""
    op()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(TIMED_RUNS):
        op()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / TIMED_RUNS


def checks(dtype: torch.dtype) -> Iterator[Check]:
    """All eight ops."""
    yield from row_checks(dtype)
    yield from attention_checks(dtype)
    for name, runs in {
        "lora 64 × 1 row": tuple((row, 1, row % len(RANKS)) for row in range(64)),
        "lora 4 × 128 rows": tuple((128 * run, 128, run) for run in range(4)),
    }.items():
        yield from lora_checks(name, runs, dtype)


def row_checks(dtype: torch.dtype) -> Iterator[Check]:
    """The ops on token rows and pages, at 256 rows."""
    rows, item = 256, dtype.itemsize
    x, residual, weight = torch.randn(rows, HIDDEN, dtype=dtype), torch.randn(rows, HIDDEN, dtype=dtype), torch.randn(HIDDEN, dtype=dtype)
    gate_up, qkv = torch.randn(rows, 2 * MLP, dtype=dtype), torch.randn(rows, HEADS + 2 * KV_HEADS, HEAD, dtype=dtype)
    angle, positions = torch.rand(4096, HEAD // 2) * 6, torch.randint(0, 4096, (rows,))
    pages, slots = torch.zeros(64, 2, PAGE_TOKENS, KV_HEADS, HEAD, dtype=dtype), torch.randperm(64 * PAGE_TOKENS)[:rows]

    def norm(op: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
        return torch.cat(op(x, weight, eps=1e-5, residual=residual))

    def rotate(op: Callable[..., None]) -> Tensor:
        rotated = qkv.clone()
        op(*rotated.split((HEADS, KV_HEADS, KV_HEADS), dim=1)[:2], angle.cos(), angle.sin(), positions)
        return rotated

    def write(op: Callable[..., None]) -> Tensor:
        filled = pages.clone()
        op(*qkv.split((HEADS, KV_HEADS, KV_HEADS), dim=1)[1:], filled[:, 0], filled[:, 1], slots)
        return filled

    yield check("rms_norm", norm, rms_norm, rms_norm_reference, moved_bytes=4 * rows * HIDDEN * item)
    yield check("rope (and a copy)", rotate, rope, rope_reference, moved_bytes=4 * qkv.nbytes)
    yield check("silu_mul", lambda op: op(gate_up), silu_mul, silu_mul_reference, moved_bytes=3 * rows * MLP * item)
    yield check("kv_write (and a copy)", write, kv_write, kv_write_reference, moved_bytes=2 * pages.nbytes)


def check(name: str, run: Callable[[Any], Tensor], op: Any, reference: Any, *, moved_bytes: int) -> Check:  # noqa: ANN401 - any op
    """The same run of an op and of its reference."""
    return Check(name=name, op=partial(run, op), reference=partial(run, reference), moved_bytes=moved_bytes)


def attention_checks(dtype: torch.dtype) -> Iterator[Check]:
    """Decode of 32 sequences of up to 2,000 keys; prefill of 512 tokens after a cached prefix, and of 300 without one."""
    pages = torch.randn(NUM_PAGES, 2, PAGE_TOKENS, KV_HEADS, HEAD, dtype=dtype)
    k_pages, v_pages = pages[:, 0], pages[:, 1]
    key_bytes = 2 * KV_HEADS * HEAD * dtype.itemsize
    table = torch.randperm(NUM_PAGES)[: 32 * 128].view(32, 128).to(torch.int32)
    lengths = torch.randint(1, 2000, (32,), dtype=torch.int32)
    q = torch.randn(32, HEADS, HEAD, dtype=dtype)
    for window in (None, 512):
        keys = int(lengths.sum() if window is None else lengths.clamp(max=window).sum())
        rest = {"scale": HEAD**-0.5, "window": window}
        yield Check(
            name=f"attention_decode, window {window}",
            op=partial(attention_decode, q, k_pages, v_pages, table, lengths, max_length=2000, **rest),
            reference=partial(attention_decode_reference, q, k_pages, v_pages, table, lengths, **rest),
            moved_bytes=keys * key_bytes,
        )
    bounds = ((0, 512, 1700), (512, 812, 300))
    starts, keys_of = torch.tensor([0, 512, 812], dtype=torch.int32), torch.tensor([1700, 300], dtype=torch.int32)
    queries = torch.randn(812, HEADS, HEAD, dtype=dtype)
    paged = (queries, k_pages, v_pages, table[:2])
    yield Check(
        name="attention_prefill",
        op=partial(attention_prefill, *paged, starts, keys_of, bounds=bounds, scale=HEAD**-0.5),
        reference=partial(attention_prefill_reference, *paged, bounds=bounds, scale=HEAD**-0.5),
        moved_bytes=2000 * key_bytes,
    )


def lora_batch(runs: tuple[tuple[int, int, int], ...], dtype: torch.dtype, *, capacity: int) -> LoraBatch:
    """Eight adapters of one layer with random matrices, side by side in an arena."""
    widths_in = (HIDDEN,) * 6 + (MLP,)
    widths_out = (HIDDEN, KV_HEADS * HEAD, KV_HEADS * HEAD, HIDDEN, MLP, MLP, HIDDEN)
    shape = (len(RANKS), 1, len(MODULES), max(RANKS) // BLOCK_RANKS)
    a_blocks, b_blocks = torch.full(shape, -1, device="cpu"), torch.full(shape, -1, device="cpu")
    size = 0
    for slot, rank in enumerate(RANKS):
        for module in range(3):
            for blocks, width in ((a_blocks, widths_in[module]), (b_blocks, widths_out[module])):
                for done in range(0, rank, BLOCK_RANKS):
                    blocks[slot, 0, module, done // BLOCK_RANKS] = size + done * width
                size += rank * width
    ranks = torch.tensor(RANKS, dtype=torch.int32).view(-1, 1, 1).expand(shape[:3]).contiguous()
    tables = LoraTables(a_blocks=a_blocks.cuda(), b_blocks=b_blocks.cuda(), ranks=ranks, in_features=widths_in, out_features=widths_out)
    arena = torch.randn(size, dtype=dtype) / HIDDEN**0.5
    return LoraBatch(arena=arena, tables=tables, segments=cut_runs(runs, capacity=capacity, device="cuda"), version=0)


def lora_checks(name: str, runs: tuple[tuple[int, int, int], ...], dtype: torch.dtype) -> Iterator[Check]:
    """Both halves of q, k and v, base rows and dead segments included."""
    call = lora_batch(runs, dtype, capacity=80).call(0, "qkv")
    rows = runs[-1][0] + runs[-1][1] + 3
    x, out = torch.randn(rows, HIDDEN, dtype=dtype), torch.randn(rows, call.out_columns, dtype=dtype)
    h = lora_shrink_reference(x, call)
    read = sum(RANKS[slot] for slot in {slot for _, _, slot in runs}) * dtype.itemsize

    def shrink(op: Callable[..., Tensor]) -> Tensor:
        return op(x, call).where(h != 0, 0)  # what no adapter writes is undefined: the reference's zeros say where

    def expand(op: Callable[..., None]) -> Tensor:
        result = out.clone()
        op(h, call, result)
        return result

    yield check(f"{name}: shrink", shrink, lora_shrink, lora_shrink_reference, moved_bytes=3 * read * HIDDEN + x.nbytes)
    yield check(f"{name}: expand", expand, lora_expand, lora_expand_reference, moved_bytes=read * call.out_columns + 4 * out.nbytes)


def graph_checks(dtype: torch.dtype) -> Iterator[Check]:
    """A graph captured with no live segment serves segments that are written into its tensors later."""
    runs = tuple((row, 1, row % len(RANKS)) for row in range(5))
    batch = lora_batch(runs, dtype, capacity=16)
    call, x, out = (
        batch.call(0, "qkv"),
        torch.randn(8, HIDDEN, dtype=dtype),
        torch.zeros(8, sum(batch.tables.out_features[:3]), dtype=dtype),
    )
    lora_expand(lora_shrink(x, call), call, out)  # compiled before the capture
    live = batch.segments.rows.clone()
    batch.segments.rows.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.zero_()
        lora_expand(lora_shrink(x, call), call, out)
    batch.segments.rows.copy_(live)

    def replay() -> Tensor:
        graph.replay()
        return out.clone()

    def reference() -> Tensor:
        result = torch.zeros_like(out)
        lora_expand_reference(lora_shrink_reference(x, call), call, result)
        return result

    read = sum(RANKS[:5]) * (3 * HIDDEN + call.out_columns) * dtype.itemsize
    yield Check(name="lora in a captured graph", op=replay, reference=reference, moved_bytes=read)


if __name__ == "__main__":
    sys.exit(main())
