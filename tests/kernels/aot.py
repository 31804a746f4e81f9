"""Compile every kernel ahead of time as its launcher launches it, without a GPU.

``python -m tests.kernels.aot`` prints one JSON line a kernel, dtype and architecture. Each launcher runs once on CPU tensors of a real
model's sizes with a recorder in the place of its kernel, so that the signature, the tiles and the alignment are those of serving. The
process must not have TRITON_INTERPRET set.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CAPABILITIES = (80, 90, 100)
DTYPES = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.int64: "i64", torch.int32: "i32"}
LAUNCH_OPTIONS = ("num_warps", "num_stages")
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"

# Llama 3 8B
HIDDEN, HEADS, KV_HEADS, HEAD, MLP = 4096, 32, 8, 128, 14336


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel, as recorded."""

    kernel: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def source(self) -> ASTSource:
        """What Triton's own launcher would compile: pointers and integers that are multiples of 16 are known to be."""
        bound = dict(zip(self.kernel.arg_names, self.arguments, strict=False))
        bound |= {name: value for name, value in self.options.items() if name not in LAUNCH_OPTIONS}
        parameters = {parameter.name: parameter for parameter in self.kernel.params}
        signature: dict[str, str] = {}
        constants: dict[tuple[int, ...], Any] = {}
        attributes: dict[tuple[int, ...], Any] = {}
        for i, name in enumerate(self.kernel.arg_names):
            value, parameter = bound[name], parameters[name]
            if parameter.is_constexpr:
                signature[name], constants[i,] = "constexpr", value
                continue
            signature[name] = f"*{DTYPES[value.dtype]}" if isinstance(value, Tensor) else "fp32" if isinstance(value, float) else "i32"
            known = 0 if isinstance(value, Tensor) else value
            if isinstance(known, int) and known % 16 == 0 and not parameter.do_not_specialize:
                attributes[i,] = [["tt.divisibility", 16]]
        return ASTSource(self.kernel, signature, constants, attributes)

    def compile(self, capability: int) -> dict[str, Any]:
        """Registers, stack and shared memory on one architecture."""
        options = {name: self.options[name] for name in LAUNCH_OPTIONS if name in self.options}
        compiled = triton.compile(self.source, target=GPUTarget("cuda", capability, 32), options=options)
        return {"shared": compiled.metadata.shared, **resources(compiled.asm["cubin"])}


def resources(cubin: bytes) -> dict[str, int]:
    """``stack`` bytes a thread (registers that were spilled), ``local`` and ``reg``, as ``cuobjdump`` reads them."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([CUOBJDUMP, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    return {name.lower(): int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}


class Recorder:
    """Takes a kernel's place: remembers the launch and runs nothing."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.launches: list[Launch] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        assert len(grid) <= 3
        return lambda *arguments, **options: self.launches.append(Launch(self.kernel, arguments, options))


def launches_of(module: ModuleType, launch: Callable[[], object]) -> list[Launch]:
    """All launches of a module's kernels while ``launch`` runs."""
    recorders = {name: Recorder(value) for name, value in vars(module).items() if isinstance(value, triton.JITFunction)}
    with patch.multiple(module, **recorders):
        launch()
    return [launch for recorder in recorders.values() for launch in recorder.launches]


def row_launches(dtype: torch.dtype) -> Iterator[Launch]:
    """The ops on token rows and pages."""
    norm, rope, silu, write = (import_module(f"kernels.{op}") for op in ("rms_norm", "rope", "silu_mul", "kv_write"))
    x, weight = torch.zeros(2, HIDDEN, dtype=dtype), torch.zeros(HIDDEN, dtype=dtype)
    q, k, v = torch.zeros(2, HEADS + 2 * KV_HEADS, HEAD, dtype=dtype).split((HEADS, KV_HEADS, KV_HEADS), dim=1)
    angles, two = torch.zeros(64, HEAD // 2), torch.zeros(2, dtype=torch.int64)
    pages = torch.zeros(2, 2, 16, KV_HEADS, HEAD, dtype=dtype)
    yield from launches_of(norm, lambda: norm.rms_norm_triton(x, weight, eps=1e-5, residual=x))
    yield from launches_of(rope, lambda: rope.rope_triton(q, k, angles, angles, two))
    yield from launches_of(silu, lambda: silu.silu_mul_triton(torch.zeros(2, 2 * MLP, dtype=dtype)))
    yield from launches_of(write, lambda: write.kv_write_triton(k, v, pages[:, 0], pages[:, 1], two))


def attention_launches(dtype: torch.dtype, size: int) -> Iterator[Launch]:
    """Both attentions, at one head size."""
    decode, prefill = (import_module(f"kernels.attention_{phase}") for phase in ("decode", "prefill"))
    q = torch.zeros(2, HEADS, size, dtype=dtype)
    pages = torch.zeros(2, 2, 16, KV_HEADS, size, dtype=dtype)
    table, lengths, starts = torch.zeros(2, 40, dtype=torch.int32), torch.ones(2, dtype=torch.int32), torch.arange(3, dtype=torch.int32)
    bounds = ((0, 1, 1), (1, 2, 1))
    paged = (q, pages[:, 0], pages[:, 1], table)
    yield from launches_of(decode, lambda: decode.attention_decode_triton(*paged, lengths, max_length=600, scale=0.1))
    yield from launches_of(prefill, lambda: prefill.attention_prefill_triton(*paged, starts, lengths, bounds=bounds, scale=0.1))


def lora_launches(dtype: torch.dtype) -> Iterator[Launch]:
    """Both halves, for q, k and v."""
    from kernels import LoraBatch, LoraTables, cut_runs  # noqa: PLC0415 - after the environment is known to be right

    shrink, expand = import_module("kernels.lora_shrink"), import_module("kernels.lora_expand")
    widths = {
        "in_features": (HIDDEN, HIDDEN, HIDDEN, HIDDEN, HIDDEN, HIDDEN, MLP),
        "out_features": (HIDDEN, KV_HEADS * HEAD, KV_HEADS * HEAD, HIDDEN, MLP, MLP, HIDDEN),
    }
    blocks, ranks = torch.zeros(2, 2, 7, 4, dtype=torch.int64), torch.zeros(2, 2, 7, dtype=torch.int32)
    tables = LoraTables(a_blocks=blocks, b_blocks=blocks, ranks=ranks, **widths)
    call = LoraBatch(arena=torch.zeros(16, dtype=dtype), tables=tables, segments=cut_runs([(0, 2, 0)]), version=0).call(1, "qkv")
    x, out = torch.zeros(2, HIDDEN, dtype=dtype), torch.zeros(2, call.out_columns, dtype=dtype)
    h = torch.zeros(2, call.scratch_columns)
    yield from launches_of(shrink, lambda: shrink.lora_shrink_triton(x, call))
    yield from launches_of(expand, lambda: expand.lora_expand_triton(h, call, out))


def main() -> None:
    """Print what each kernel takes, by dtype and architecture."""
    for dtype in (torch.bfloat16, torch.float32):
        found = [*row_launches(dtype), *lora_launches(dtype), *attention_launches(dtype, HEAD)]
        for launch in found:
            for capability in CAPABILITIES:
                facts = {"kernel": launch.kernel.__name__, "dtype": DTYPES[dtype], "capability": capability}
                print(json.dumps(facts | launch.compile(capability)), flush=True)


if __name__ == "__main__":
    main()
