"""Rotary positions: what config.json says of them, and the cosines and sines that the kernel reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import BaseRefused
from engine.models.spec import RopeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

FIELDS = {
    "default": frozenset[str](),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    "yarn": frozenset({
        "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "truncate",
        "mscale", "mscale_all_dim",
    }),
}  # fmt: skip
"""By kind, the fields of ``rope_scaling`` that it reads."""


def rope_tables(spec: RopeSpec, head_dim: int, max_position: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [max_position, head_dim / 2] in fp32."""
    angles = torch.outer(torch.arange(max_position, dtype=torch.float32), inverse_frequencies(spec, head_dim))
    return (angles.cos() * spec.attention_factor).to(device), (angles.sin() * spec.attention_factor).to(device)


def inverse_frequencies(spec: RopeSpec, head_dim: int) -> Tensor:
    """Radians a position, [head_dim / 2] fp32."""
    frequencies = 1.0 / spec.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if spec.kind == "linear":
        return frequencies / spec.factor
    if spec.kind == "llama3":
        return _llama3(spec, frequencies)
    if spec.kind == "yarn":
        return _yarn(spec, frequencies, head_dim)
    return frequencies


def _llama3(spec: RopeSpec, frequencies: Tensor) -> Tensor:
    """Long waves are stretched by the factor, short ones kept, those between are blended (Llama 3.1)."""
    rotations = spec.original_max_position * frequencies / (2 * math.pi)
    keep = (rotations - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor)
    keep = keep.clamp(0, 1)
    return keep * frequencies + (1 - keep) * frequencies / spec.factor


def _yarn(spec: RopeSpec, frequencies: Tensor, head_dim: int) -> Tensor:
    """Stretched dimensions blend into kept ones over a ramp (YaRN, arXiv 2309.00071, section 3.2)."""

    def dimension(rotations: float) -> float:
        """The dimension that turns this often over the original length."""
        return head_dim * math.log(spec.original_max_position / (rotations * 2 * math.pi)) / (2 * math.log(spec.theta))

    low, high = dimension(spec.beta_fast), dimension(spec.beta_slow)
    if spec.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low or 0.001
    stretch = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width).clamp(0, 1)
    return stretch * frequencies / spec.factor + (1 - stretch) * frequencies


def read_rope(config: Mapping[str, Any], max_position: int) -> tuple[RopeSpec, int]:
    """The rotation and the longest sequence it allows. Raises BaseRefused by field.

    ``rope_parameters`` (transformers 5) and ``rope_theta`` with ``rope_scaling`` (before) are both read.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise BaseRefused("rope_scaling must be an object", param="rope_scaling", found=scaling)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in FIELDS:
        raise BaseRefused(f"rope_type {kind!r} is not supported", param="rope_scaling.rope_type", expected=list(FIELDS), found=kind)
    _refuse_unread(scaling, kind)
    theta = float(scaling.get("rope_theta", config.get("rope_theta", 10000.0)))
    if kind == "default":
        return RopeSpec(theta=theta), max_position
    if kind == "linear":
        factor = _number(scaling, "factor")
        return RopeSpec(kind="linear", theta=theta, factor=factor), int(max_position * factor)
    original = config.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings") or max_position
    if kind == "llama3":
        return _read_llama3(scaling, theta, int(original)), max_position
    return _read_yarn(scaling, theta, int(original), max_position)


def _refuse_unread(scaling: Mapping[str, Any], kind: str) -> None:
    """Raises BaseRefused at a field that the kind would ignore although it says something."""
    known = FIELDS[kind] | {"rope_type", "type", "rope_theta"}
    for field, value in scaling.items():
        if field == "partial_rotary_factor" and value == 1.0:
            continue
        if field not in known and value:
            raise BaseRefused(
                f"rope_scaling.{field} = {value!r} is not supported with rope_type {kind!r}", param=f"rope_scaling.{field}", found=value
            )


def _read_llama3(scaling: Mapping[str, Any], theta: float, original: int) -> RopeSpec:
    """Llama 3.1's rotation; its ``max_position_embeddings`` is the scaled length already."""
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    if high <= low:
        raise BaseRefused("rope_scaling.high_freq_factor must exceed low_freq_factor", param="rope_scaling.high_freq_factor", found=high)
    return RopeSpec(
        kind="llama3",
        theta=theta,
        factor=_number(scaling, "factor"),
        original_max_position=original,
        low_freq_factor=low,
        high_freq_factor=high,
    )


def _read_yarn(scaling: Mapping[str, Any], theta: float, original: int, max_position: int) -> tuple[RopeSpec, int]:
    """YaRN's rotation, and the original length times its factor (a config may give either length as its own)."""
    factor = _number(scaling, "factor", max_position / original)
    spec = RopeSpec(
        kind="yarn",
        theta=theta,
        factor=factor,
        original_max_position=original,
        beta_fast=float(scaling.get("beta_fast") or 32),
        beta_slow=float(scaling.get("beta_slow") or 1),
        truncate=bool(scaling.get("truncate", True)),
        attention_factor=_yarn_attention(scaling, factor),
    )
    return spec, max(max_position, int(original * factor))


def _yarn_attention(scaling: Mapping[str, Any], factor: float) -> float:
    """What multiplies cos and sin: as given, or from the factor (section 3.4), or from the two ``mscale`` (DeepSeek)."""
    if scaling.get("attention_factor") is not None:
        return _number(scaling, "attention_factor")

    def temper(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    mscale, of_all = scaling.get("mscale"), scaling.get("mscale_all_dim")
    return temper(mscale) / temper(of_all) if mscale and of_all else temper(1.0)


def _number(scaling: Mapping[str, Any], field: str, default: float | None = None) -> float:
    """A positive number. Raises BaseRefused otherwise."""
    value = scaling.get(field)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise BaseRefused(f"rope_scaling.{field} must be a positive number", param=f"rope_scaling.{field}", expected="> 0", found=value)
    return float(value)
