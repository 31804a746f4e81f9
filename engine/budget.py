"""How the device's bytes are divided before anything runs: base, workspace, arena, what others hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from engine.errors import BaseRefused

if TYPE_CHECKING:
    from engine.memory.layout import PageLayout
    from engine.models.spec import ModelSpec
    from engine.settings import Settings

SCRATCH_PAGES = 4
"""Arena pages beside the pool: one for each probe prompt; padding rows of captured steps write there too."""
GPU_SHARE = 0.9
MIN_PAGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBudget:
    """Bytes of the device at start. ``total`` = base + workspace + pages + other + what is left."""

    total: int
    base: int
    workspace: int
    """Activations of the largest step, and the scratch pages."""
    other: int
    num_pages: int
    """Of the pool; scratch pages are extra."""


def choose_device(settings: Settings) -> torch.device:
    """The device asked for, or the best there is. Raises BaseRefused when CUDA is asked for and absent."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        message = "No CUDA device is available to torch; use --device cpu."
        raise BaseRefused(message, code="no_device", param="device", expected="cuda", found="cpu")
    wanted = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def serving_dtype(device: torch.device) -> torch.dtype:
    """fp32 on CPU, where bf16 is several times slower without its own instructions; bf16 on CUDA."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def device_name(device: torch.device) -> str:
    """The processor's own name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else 'CPU'} · {os.cpu_count()} cores"


def divide(settings: Settings, spec: ModelSpec, layout: PageLayout, *, base_bytes: int, device: torch.device) -> DeviceBudget:
    """All that is left after base and workspace is the arena. Raises BaseRefused with the sum when too little is left."""
    total, other = _device_total(settings, device, base_bytes)
    workspace = _activation_bytes(settings, spec) + SCRATCH_PAGES * layout.page_bytes
    num_pages = (total - other - base_bytes - workspace) // layout.page_bytes
    if num_pages < MIN_PAGES:
        needed = base_bytes + workspace + other + MIN_PAGES * layout.page_bytes
        message = f"The memory budget is too small: {total:,} bytes, and base, workspace and {MIN_PAGES} pages need {needed:,}."
        raise BaseRefused(message, code="memory_too_small", param="memory", expected=needed, found=total)
    return DeviceBudget(total=total, base=base_bytes, workspace=workspace, other=other, num_pages=num_pages)


def _device_total(settings: Settings, device: torch.device, base_bytes: int) -> tuple[int, int]:
    """(total, held by others): on CUDA all of the device, where what the budget leaves out counts as others'; on CPU the budget."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        usable = settings.memory or int(total * GPU_SHARE)
        others = total - free - torch.cuda.memory_reserved(device)
        return total, max(others, total - usable)
    if settings.memory:
        return settings.memory, 0
    return base_bytes + (psutil.virtual_memory().available // 2), 0


def _activation_bytes(settings: Settings, spec: ModelSpec) -> int:
    """What the largest step holds at once, in fp32: the widest layer's tensors for each token, and logits for each sequence."""
    per_token = 4 * spec.hidden_size + spec.q_size + 2 * spec.kv_size + 3 * spec.mlp_size
    return 4 * (settings.max_step_tokens * per_token + 2 * settings.max_sequences * spec.vocab_size)
