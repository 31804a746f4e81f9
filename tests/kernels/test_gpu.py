"""On a machine with CUDA every kernel agrees with its reference at a real model's sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.gpu
def test_kernels_on_the_device() -> None:
    """``python -m kernels.gpu_check`` passes; its table is printed."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "kernels.gpu_check"], capture_output=True, text=True, check=False, env=environment, cwd=root
    )
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
