"""The matrices that are trained, in the form in which the kernels take an adapter."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from engine.models.spec import MODULES
from kernels.lora_batch import LoraBatch, LoraCall, LoraTables, cut_runs
from kernels.lora_layout import BLOCK_RANKS, GROUPS

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.spec import ModelSpec
    from engine.training.recipe import Recipe
    from kernels.lora_layout import GroupName

Place = tuple[int, int]
"""(layer, module index)"""


@dataclass(frozen=True, kw_only=True)
class LoraWeights:
    """A and B of every adapted projection, fp32 leaves. Owned by one training run; the optimizer changes them in place."""

    spec: ModelSpec
    rank: int
    scale: float
    a: dict[Place, Tensor]
    """[rank, in]"""
    b: dict[Place, Tensor]
    """[out, rank]"""
    tables: LoraTables = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _tables(self.spec, self.rank, self.a))

    @classmethod
    def fresh(cls, spec: ModelSpec, recipe: Recipe) -> LoraWeights:
        """As PEFT begins: A uniform within 1/√in, B zero. The same for the same seed."""
        generator = torch.Generator().manual_seed(recipe.seed)
        a, b = {}, {}
        for layer in range(spec.num_layers):
            for module in recipe.modules:
                inputs, outputs = spec.module_dims[module]
                place = (layer, MODULES.index(module))
                uniform = torch.rand(recipe.rank, inputs, generator=generator) * 2 - 1
                a[place] = (uniform / math.sqrt(inputs)).requires_grad_()
                b[place] = torch.zeros(outputs, recipe.rank).requires_grad_()
        return cls(spec=spec, rank=recipe.rank, scale=recipe.scale, a=a, b=b)

    @property
    def parameters(self) -> list[Tensor]:
        """All of them, A before B at each place."""
        return [matrix for place in self.a for matrix in (self.a[place], self.b[place])]

    def batch(self, num_tokens: int) -> LoraBatch:
        """All tokens of a pass under these matrices."""
        arena = next(iter(self.a.values())).view(-1)
        return TrainedBatch(arena=arena, tables=self.tables, segments=cut_runs([(0, num_tokens, 0)]), version=0, weights=self)

    def named(self) -> dict[str, Tensor]:
        """The tensors under PEFT's names."""
        named = {}
        for (layer, module), matrix in self.a.items():
            block = "self_attn" if MODULES[module].endswith(("q_proj", "k_proj", "v_proj", "o_proj")) else "mlp"
            name = f"base_model.model.model.layers.{layer}.{block}.{MODULES[module]}"
            named[f"{name}.lora_A.weight"] = matrix.detach()
            named[f"{name}.lora_B.weight"] = self.b[layer, module].detach()
        return named


def _tables(spec: ModelSpec, rank: int, adapted: dict[Place, Tensor]) -> LoraTables:
    """Ranks of slot 0. Its blocks lie nowhere: ``TrainedCall`` gives the matrices themselves."""
    blocks = torch.full((1, spec.num_layers, len(MODULES), -(-rank // BLOCK_RANKS)), -1, dtype=torch.int64)
    ranks = torch.zeros((1, spec.num_layers, len(MODULES)), dtype=torch.int32)
    for layer, module in adapted:
        ranks[0, layer, module] = rank
    dims = tuple(spec.module_dims.values())
    return LoraTables(
        a_blocks=blocks,
        b_blocks=blocks,
        ranks=ranks,
        in_features=tuple(width for width, _ in dims),
        out_features=tuple(width for _, width in dims),
    )


@dataclass(frozen=True, kw_only=True)
class TrainedBatch(LoraBatch):
    """A batch whose one adapter is being trained."""

    weights: LoraWeights

    def call(self, layer: int, group: GroupName) -> LoraCall:
        """The part of one fused projection of one layer."""
        plain = super().call(layer, group)
        return TrainedCall(
            batch=self,
            layer=layer,
            group=group,
            modules=plain.modules,
            in_features=plain.in_features,
            out_features=plain.out_features,
            out_columns=plain.out_columns,
            weights=self.weights,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedCall(LoraCall):
    """What the reference kernels multiply with: leaves that want a gradient."""

    weights: LoraWeights

    def matrices(self, kind: str, slot: int) -> list[Tensor]:  # noqa: ARG002 there is one slot
        """A, or B transposed with the scale in it, of each module of the group, [rank, width]."""
        weights, found = self.weights, []
        for module in range(GROUPS[self.group][0], sum(GROUPS[self.group])):
            width = self.in_features if kind == "a" else weights.tables.out_features[module]
            place = (self.layer, module)
            if place not in weights.a:
                found.append(torch.zeros(0, width))
            else:
                found.append(weights.a[place] if kind == "a" else weights.b[place].T * weights.scale)
        return found
