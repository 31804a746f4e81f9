"""The forward pass of a Llama-shaped decoder over one mixed batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.models.attention import attend
from engine.models.rope import rope_tables
from kernels.lora_expand import lora_expand
from kernels.lora_shrink import lora_shrink
from kernels.rms_norm import rms_norm
from kernels.rope import rope
from kernels.silu_mul import silu_mul

if TYPE_CHECKING:
    from torch import Tensor

    from engine.batch import ForwardBatch
    from engine.models.attention import KVPages
    from engine.models.linear import Linear
    from engine.models.spec import ModelSpec
    from kernels.lora_batch import LoraBatch
    from kernels.lora_layout import GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. ``qkv`` yields queries, keys, values side by side; ``gate_up`` the gate, then the up projection."""

    input_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        norms = (norm for norm in (self.input_norm, self.q_norm, self.k_norm, self.mlp_norm) if norm is not None)
        return sum(norm.nbytes for norm in norms) + sum(each.nbytes for each in (self.qkv, self.o, self.gate_up, self.down))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All weights of a decoder, on its device, in the serving dtype."""

    embedding: Tensor
    """[vocab, hidden]"""
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Linear
    """hidden → vocab. A tied head has its own copy where the CPU wants panels: no row of the embedding lies in one piece in them."""

    @property
    def nbytes(self) -> int:
        """Bytes held; a head that is the embedding itself counts once."""
        shared = getattr(self.head, "weight", None) is self.embedding
        head_bytes = 0 if shared else self.head.nbytes
        return self.embedding.nbytes + sum(layer.nbytes for layer in self.layers) + self.norm.nbytes + head_bytes


class DecoderModel:
    """A decoder ready to serve. Immutable once made; one thread at a time calls ``forward``."""

    def __init__(self, spec: ModelSpec, weights: DecoderWeights, *, max_position: int | None = None) -> None:
        """``max_position`` bounds the sequences that will come, for smaller tables; None takes the spec's."""
        self.spec = spec
        self.weights = weights
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        self.cos, self.sin = rope_tables(spec.rope, spec.head_dim, max_position or spec.max_position, self.device)

    @property
    def nbytes(self) -> int:
        """Bytes held on the device: weights and rotation tables."""
        return self.weights.nbytes + self.cos.nbytes + self.sin.nbytes

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, kv: KVPages) -> Tensor:
        """Logits [R, vocab] fp32 of ``batch.logit_rows``; writes the batch's keys and values into ``kv``."""
        return self.logits(batch, kv)

    def logits(self, batch: ForwardBatch, kv: KVPages) -> Tensor:
        """The same outside inference mode: with a gradient to an adapter whose matrices want one."""
        eps = self.spec.norm_eps
        update, residual = self.weights.embedding.index_select(0, batch.token_ids), None
        for index, layer in enumerate(self.weights.layers):
            x, residual = rms_norm(update, layer.input_norm, eps=eps, residual=residual)
            update = self._attention(x, index, batch, kv)
            x, residual = rms_norm(update, layer.mlp_norm, eps=eps, residual=residual)
            update = self._mlp(x, index, batch.lora)
        rows = batch.logit_rows
        assert residual is not None
        x, _ = rms_norm(update.index_select(0, rows), self.weights.norm, eps=eps, residual=residual.index_select(0, rows))
        return self.weights.head(x).float()

    def _attention(self, x: Tensor, index: int, batch: ForwardBatch, kv: KVPages) -> Tensor:
        """x [T, hidden], normed → what attention adds to the stream."""
        spec, layer = self.spec, self.weights.layers[index]
        qkv = project(x, layer.qkv, batch.lora, index, "qkv")
        heads = qkv.view(len(x), -1, spec.head_dim)
        last_k = spec.num_heads + spec.num_kv_heads
        q, k, v = heads[:, : spec.num_heads], heads[:, spec.num_heads : last_k], heads[:, last_k:]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = head_norm(q, layer.q_norm, spec.norm_eps), head_norm(k, layer.k_norm, spec.norm_eps)
        rope(q, k, self.cos, self.sin, batch.positions)
        mixed = attend(q, k, v, batch, (kv.k_pages(index), kv.v_pages(index)), window=spec.windows[index])
        return project(mixed.flatten(1), layer.o, batch.lora, index, "o")

    def _mlp(self, x: Tensor, index: int, lora: LoraBatch | None) -> Tensor:
        """x [T, hidden], normed → what the gated MLP adds to the stream."""
        layer = self.weights.layers[index]
        gated = silu_mul(project(x, layer.gate_up, lora, index, "gate_up"))
        return project(gated, layer.down, lora, index, "down")


def project(x: Tensor, linear: Linear, lora: LoraBatch | None, layer: int, group: GroupName) -> Tensor:
    """The base's product, and on top the update of each row's adapter."""
    out = linear(x)
    if lora is not None:
        call = lora.call(layer, group)
        lora_expand(lora_shrink(x, call), call, out)
    return out


def head_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each head of x [T, H, D] normed alone; a new tensor."""
    y, _ = rms_norm(x.reshape(-1, x.shape[2]), weight, eps=eps)
    return y.view(x.shape)
