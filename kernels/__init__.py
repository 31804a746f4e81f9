"""Pure tensor functions: eight ops, each with a Triton kernel, a reference in plain torch and a fast CPU path."""

from __future__ import annotations

from kernels.attention_decode import attention_decode
from kernels.attention_prefill import attention_prefill
from kernels.kv_write import kv_write
from kernels.lora_batch import LoraBatch, LoraCall, LoraSegments, LoraTables, cut_runs
from kernels.lora_expand import lora_expand
from kernels.lora_layout import BLOCK_RANKS, GROUPS, MODULES, GroupName
from kernels.lora_shrink import lora_shrink
from kernels.rms_norm import rms_norm
from kernels.rope import rope
from kernels.silu_mul import silu_mul

__all__ = [
    "BLOCK_RANKS",
    "GROUPS",
    "MODULES",
    "GroupName",
    "LoraBatch",
    "LoraCall",
    "LoraSegments",
    "LoraTables",
    "attention_decode",
    "attention_prefill",
    "cut_runs",
    "kv_write",
    "lora_expand",
    "lora_shrink",
    "rms_norm",
    "rope",
    "silu_mul",
]
