"""Every kernel compiles for the GPUs that Loradeck serves on, and those of the decode path keep their values in registers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHARED_LIMIT_BYTES = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
"""Shared memory that one block may have."""

DECODE_PATH = {
    "rms_norm_kernel",
    "rope_kernel",
    "silu_mul_kernel",
    "kv_write_kernel",
    "lora_shrink_kernel",
    "lora_expand_kernel",
    "attention_decode_kernel",
    "attention_decode_join_kernel",
}


@pytest.fixture(scope="module")
def compiled() -> list[dict[str, Any]]:
    """What ``tests.kernels.aot`` says, in a process without the interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.aot"], capture_output=True, text=True, check=False, env=environment, cwd=root, timeout=400
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_all_kernels_compile(compiled: list[dict[str, Any]]) -> None:
    """Nine kernels, two dtypes, three architectures."""
    assert {row["kernel"] for row in compiled} == DECODE_PATH | {"attention_prefill_kernel"}
    assert len(compiled) == 9 * 2 * 3


def test_shared_memory_fits(compiled: list[dict[str, Any]]) -> None:
    """At a real model's sizes."""
    assert [row for row in compiled if row["shared"] > SHARED_LIMIT_BYTES[row["capability"]]] == []


def test_decode_path_spills_nothing(compiled: list[dict[str, Any]]) -> None:
    """No stack and no local memory."""
    assert [row for row in compiled if row["kernel"] in DECODE_PATH and (row["stack"] or row["local"])] == []
