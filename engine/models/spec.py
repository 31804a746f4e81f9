"""What a decoder is made of: sizes, rotation, what each layer has. A pure value; ``config.py`` reads it from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The projections an adapter may change; the index is the module number everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSpec:
    """How positions turn into rotations. Fields that the kind does not use keep their neutral value."""

    kind: Literal["default", "linear", "llama3", "yarn"] = "default"
    theta: float = 10000.0
    factor: float = 1.0
    original_max_position: int = 0
    """llama3, yarn: the length before scaling."""
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    """yarn: whether the ramp's ends are whole dimensions."""
    attention_factor: float = 1.0
    """yarn: multiplies cos and sin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One decoder of the Llama family tree. All that its answers depend on besides the weights, and the two names."""

    name: str
    digest: str = ""
    """sha256 of weights and behaviour (``engine.weights.digest``); empty until known."""
    task: Literal["causal"] = "causal"
    family: str
    num_layers: int
    hidden_size: int
    mlp_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int
    """Tokens of the longest sequence, scaling included."""
    norm_eps: float
    tied: bool
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    windows: tuple[int | None, ...]
    """A layer attends to this many last keys, itself included; None to all."""
    rope: RopeSpec

    @property
    def q_size(self) -> int:
        """Features of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Features of all key (or value) heads."""
        return self.num_kv_heads * self.head_dim

    @property
    def module_dims(self) -> dict[str, tuple[int, int]]:
        """(in, out) features of each projection, in module order."""
        return {
            "q_proj": (self.hidden_size, self.q_size),
            "k_proj": (self.hidden_size, self.kv_size),
            "v_proj": (self.hidden_size, self.kv_size),
            "o_proj": (self.q_size, self.hidden_size),
            "gate_proj": (self.hidden_size, self.mlp_size),
            "up_proj": (self.hidden_size, self.mlp_size),
            "down_proj": (self.mlp_size, self.hidden_size),
        }
