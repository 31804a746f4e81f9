"""The effective-delta probe: an adapter must change what the base says, and go on saying the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

NUM_PROMPTS = 4
PROMPT_TOKENS = 8
MIN_RELATIVE_DELTA = 1e-5
"""Largest logit change over the base logits' spread, below which an adapter changes nothing."""
FINGERPRINT_TOLERANCE = 0.02
"""Largest difference of two fingerprints, relative to the first one's size; rounding stays far below, another adapter far above."""


def probe_prompts(vocab_size: int) -> list[list[int]]:
    """Fixed prompts: ids spread over the vocabulary, the same for every adapter of a base."""
    return [[(prompt * 7919 + position * 104729 + 17) % vocab_size for position in range(PROMPT_TOKENS)] for prompt in range(NUM_PROMPTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReading:
    """What the probe saw. ``fingerprint`` has NUM_PROMPTS * 3 numbers: change at the base's best token, largest, root mean square."""

    relative_delta: float
    finite: bool
    fingerprint: tuple[float, ...]

    @property
    def has_effect(self) -> bool:
        """Whether the adapter changes the base's logits at all."""
        return self.relative_delta > MIN_RELATIVE_DELTA


def read_probe(base_logits: Tensor, adapter_logits: Tensor) -> ProbeReading:
    """Compare last-position logits, each [NUM_PROMPTS, V] fp32."""
    delta = adapter_logits - base_logits
    spread = base_logits.std().clamp(min=1e-12)
    at_best = delta.gather(1, base_logits.argmax(dim=1, keepdim=True)).squeeze(1)
    largest = delta.abs().amax(dim=1)
    rms = delta.square().mean(dim=1).sqrt()
    return ProbeReading(
        relative_delta=float(largest.max() / spread),
        finite=bool(torch.isfinite(adapter_logits).all()),
        fingerprint=tuple(round(value, 6) for value in torch.cat([at_best, largest, rms]).tolist()),
    )


def fingerprints_match(stored: tuple[float, ...], found: tuple[float, ...]) -> bool:
    """Whether two fingerprints are the same adapter's, up to rounding."""
    if len(stored) != len(found):
        return False
    size = max(1e-6, *(abs(value) for value in stored))
    return all(abs(a - b) <= FINGERPRINT_TOLERANCE * size for a, b in zip(stored, found, strict=True))


def fingerprint_text(fingerprint: tuple[float, ...]) -> str:
    """Eight hex digits to show; two digits of precision, so that rounding rarely changes it. Empty for none."""
    if not fingerprint:
        return ""
    text = ",".join(f"{value:.1e}" for value in fingerprint)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
