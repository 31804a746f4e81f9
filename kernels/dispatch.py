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


def require_pages(q: Tensor, k_pages: Tensor, v_pages: Tensor, op: str) -> None:
    """Raise ValueError unless queries [.., Hq, D] fit keys and values [N, page_tokens, Hk, D] that are views of one arena."""
    require(q.dim() == 3 and q.stride()[1:] == (q.shape[2], 1), op, "q must be [T, heads, D] with contiguous heads")
    require(k_pages.shape == v_pages.shape and k_pages.stride() == v_pages.stride(), op, "k_pages and v_pages must be views of one arena")
    require(
        k_pages.shape[3] == q.shape[2] and q.shape[1] % k_pages.shape[2] == 0, op, "query heads must be a multiple of key heads, of one D"
    )
