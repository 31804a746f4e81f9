"""Which implementation of an op runs: one rule for all eight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from torch import Tensor

Implementation = Literal["reference", "triton", "cpu"]


def implementation(*tensors: Tensor) -> Implementation:
    """The reference where a gradient is wanted, Triton for tensors on a GPU, the fast torch path for the rest.

    Tests call ``<op>_triton`` themselves, through the interpreter, so that no environment variable changes what is served.
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "reference"
    return "triton" if tensors[0].is_cuda else "cpu"


def require(condition: bool, op: str, rule: str) -> None:  # noqa: FBT001 - reads as a sentence at the call
    """Raise ValueError naming the op and the rule it needs."""
    if not condition:
        msg = f"{op}: {rule}"
        raise ValueError(msg)
