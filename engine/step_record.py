"""A forward pass that ran, as the playground draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.ids import AdapterId, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One sequence's part in one step."""

    request: RequestId
    index: int
    phase: Literal["prefill", "decode"]
    tokens: int
    adapter: AdapterId | None
    samples: bool = True
    """Whether it gave a token; a prompt in chunks does with its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One forward pass, as the playground draws it."""

    step: int
    started_s: float
    duration_s: float
    rows: tuple[StepRow, ...]
    num_adapters: int
