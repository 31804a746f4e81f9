"""A stream of tensors → the parameters of a decoder: fused, cast, packed; nothing missing, nothing left over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from engine.errors import BaseRefused
from engine.models.decoder import DecoderWeights, LayerWeights
from engine.models.linear import make_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

    from engine.models.linear import CpuWeights, Linear
    from engine.models.spec import ModelSpec

EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
TOP = -1
"""The group of what belongs to no layer."""
# Old Llama exports saved these tables; they follow from config.json.
IGNORED = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Where one tensor of the checkpoint goes: rows ``[row, row + shape[0])`` of parameter ``key`` in ``group``."""

    group: int
    key: str
    shape: tuple[int, ...]
    row: int = 0
    rows: int
    """Of the whole parameter."""


def fill(
    spec: ModelSpec,
    stream: Iterable[tuple[str, Tensor]],
    *,
    device: torch.device,
    dtype: torch.dtype,
    cpu_weights: CpuWeights = "fp32",
    progress: Callable[[float], None] = lambda _fraction: None,
) -> DecoderWeights:
    """The decoder's weights, on ``device`` in ``dtype``. ``progress`` hears the share of tensors placed, 0 to 1.

    Beside the result, only layers whose tensors have not all come are held. Raises BaseRefused by tensor.
    """
    filler = Filler(spec, device, dtype, cpu_weights)
    for name, tensor in stream:
        filler.put(name, tensor)
        progress(filler.done)
    return filler.finish()


class Filler:
    """Collects tensors in any order. Owned by one loading thread."""

    def __init__(self, spec: ModelSpec, device: torch.device, dtype: torch.dtype, cpu_weights: CpuWeights) -> None:
        self.spec = spec
        self.device, self.dtype, self.cpu_weights = device, dtype, cpu_weights
        self.parts = expected_parts(spec)
        self.num_parts = len(self.parts)
        self.left = {group: sum(part.group == group for part in self.parts.values()) for group in range(TOP, spec.num_layers)}
        self.buffers: dict[int, dict[str, Tensor]] = {group: {} for group in self.left}
        self.layers: dict[int, LayerWeights] = {}
        self.extra_head: Tensor | None = None

    @property
    def done(self) -> float:
        """Share of the expected tensors that have come."""
        return 1 - len(self.parts) / self.num_parts

    def put(self, name: str, tensor: Tensor) -> None:
        """Copy a tensor to its place. Raises BaseRefused when it has none, or another shape."""
        part = self.parts.pop(name, None)
        if part is None:
            return self._put_extra(name, tensor)
        if tuple(tensor.shape) != part.shape:
            raise BaseRefused(
                f"{name} has shape {list(tensor.shape)}, config.json asks for {list(part.shape)}",
                param=name,
                expected=list(part.shape),
                found=list(tensor.shape),
            )
        buffers = self.buffers[part.group]
        if part.key not in buffers:
            buffers[part.key] = torch.empty((part.rows, *part.shape[1:]), dtype=self.dtype, device=self.device)
        buffers[part.key][part.row : part.row + part.shape[0]].copy_(tensor)
        self.left[part.group] -= 1
        if part.group != TOP and not self.left[part.group]:
            self.layers[part.group] = self._layer(self.buffers.pop(part.group))
        return None

    def _put_extra(self, name: str, tensor: Tensor) -> None:
        """A tied base may repeat its embedding as a head; anything else that is not expected is refused."""
        if name == HEAD and self.spec.tied:
            self.extra_head = tensor
        elif not IGNORED.fullmatch(name):
            raise BaseRefused(f"{name} is not part of a {self.spec.family} decoder of this config.json", param=name, expected="absent")

    def finish(self) -> DecoderWeights:
        """The weights. Raises BaseRefused naming the first tensor that never came."""
        for name in self.parts:
            more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
            raise BaseRefused(f"the weights lack {name}{more}", param=name, expected=list(self.parts[name].shape), found="absent")
        top = self.buffers.pop(TOP)
        if self.extra_head is not None and not torch.equal(self.extra_head.to(top["embedding"]), top["embedding"]):
            raise BaseRefused(
                f"config.json ties the head to the embedding, but {HEAD} differs from {EMBEDDING}", param=HEAD, expected="equal or absent"
            )
        return DecoderWeights(
            embedding=top["embedding"],
            layers=tuple(self.layers[index] for index in range(self.spec.num_layers)),
            norm=top["norm"],
            head=self._linear(top, "head") if "head" in top else make_linear(top["embedding"], cpu_weights=self.cpu_weights),
        )

    def _layer(self, tensors: dict[str, Tensor]) -> LayerWeights:
        return LayerWeights(
            input_norm=tensors["input_norm"],
            qkv=self._linear(tensors, "qkv"),
            q_norm=tensors.get("q_norm"),
            k_norm=tensors.get("k_norm"),
            o=self._linear(tensors, "o"),
            mlp_norm=tensors["mlp_norm"],
            gate_up=self._linear(tensors, "gate_up"),
            down=self._linear(tensors, "down"),
        )

    def _linear(self, tensors: dict[str, Tensor], key: str) -> Linear:
        return make_linear(tensors.pop(key), tensors.get(f"{key}.bias"), cpu_weights=self.cpu_weights)


def expected_parts(spec: ModelSpec) -> dict[str, Part]:
    """Every tensor that the checkpoint must hold, by its Hugging Face name."""
    hidden, vocab = spec.hidden_size, spec.vocab_size
    parts = {
        EMBEDDING: Part(group=TOP, key="embedding", shape=(vocab, hidden), rows=vocab),
        NORM: Part(group=TOP, key="norm", shape=(hidden,), rows=hidden),
    }
    if not spec.tied:
        parts[HEAD] = Part(group=TOP, key="head", shape=(vocab, hidden), rows=vocab)
    for layer in range(spec.num_layers):
        parts |= _layer_parts(spec, layer)
    return parts


def _layer_parts(spec: ModelSpec, layer: int) -> dict[str, Part]:
    prefix, hidden, size = f"model.layers.{layer}", spec.hidden_size, spec.head_dim
    parts = {
        f"{prefix}.input_layernorm.weight": Part(group=layer, key="input_norm", shape=(hidden,), rows=hidden),
        f"{prefix}.post_attention_layernorm.weight": Part(group=layer, key="mlp_norm", shape=(hidden,), rows=hidden),
    }
    if spec.qk_norm:
        parts[f"{prefix}.self_attn.q_norm.weight"] = Part(group=layer, key="q_norm", shape=(size,), rows=size)
        parts[f"{prefix}.self_attn.k_norm.weight"] = Part(group=layer, key="k_norm", shape=(size,), rows=size)
    for key, block, modules, bias in (
        ("qkv", "self_attn", ("q_proj", "k_proj", "v_proj"), spec.qkv_bias),
        ("o", "self_attn", ("o_proj",), spec.o_bias),
        ("gate_up", "mlp", ("gate_proj", "up_proj"), spec.mlp_bias),
        ("down", "mlp", ("down_proj",), spec.mlp_bias),
    ):
        rows, row = sum(spec.module_dims[module][1] for module in modules), 0
        for module in modules:
            inputs, outputs = spec.module_dims[module]
            name = f"{prefix}.{block}.{module}"
            parts[f"{name}.weight"] = Part(group=layer, key=key, shape=(outputs, inputs), row=row, rows=rows)
            if bias:
                parts[f"{name}.bias"] = Part(group=layer, key=f"{key}.bias", shape=(outputs,), row=row, rows=rows)
            row += outputs
    return parts
