"""Kernels run through Triton's interpreter, and fresh memory is NaN: a hole in an output is a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from triton.runtime.interpreter import InterpretedFunction

from kernels.rms_norm import rms_norm_kernel


@pytest.fixture(autouse=True)
def _fresh_memory_is_nan(request: pytest.FixtureRequest) -> Iterator[None]:
    """``torch.empty`` and its kin are filled with NaN."""
    if request.node.get_closest_marker("gpu") is None and not isinstance(rms_norm_kernel, InterpretedFunction):
        pytest.fail("triton was imported before tests/conftest.py set TRITON_INTERPRET")
    torch.use_deterministic_algorithms(mode=True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch.use_deterministic_algorithms(mode=False)
