"""Pairs of stored tensors → the A and B of each projection, with shapes, ranks and values proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO

import torch
from torch import Tensor

from engine.adapters.base_shape import BaseShape
from engine.adapters.config import AdapterConfig
from engine.adapters.keys import FUSED, Pair
from engine.adapters.refusal import refusal, shown
from engine.adapters.safetensors_file import StoredTensor, read_tensor
from engine.models.spec import MODULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One projection's change: out += scale · B (A x). ``a`` is [rank, in], ``b`` is [out, rank], both as stored."""

    layer: int
    module: int
    a: Tensor
    b: Tensor
    scale: float
    a_name: str
    b_name: str
    """The tensors' names in the file."""

    @property
    def rank(self) -> int:
        """Rows of A."""
        return self.a.shape[0]

    @property
    def has_effect(self) -> bool:
        """Whether it adds anything but zeros; reads all values."""
        return self.scale != 0 and bool(self.a.any()) and bool(self.b.any())


def check_pair(pair: Pair, config: AdapterConfig, base: BaseShape, *, max_rank: int) -> None:
    """Shapes and rank against base, config and cap, from the header alone. Raises AdapterRefused naming the tensor."""
    if pair.layer >= base.num_layers:
        message = f"{shown(pair.a.name)} is for layer {pair.layer}; the base has {base.num_layers} layers, counted from 0."
        raise refusal("layer_out_of_range", message, param=pair.a.name, expected=f"below {base.num_layers}", found=pair.layer)
    for tensor in (pair.a, pair.b):
        refuse_empty(tensor)
    inputs, outputs = _dims(pair.target, base)
    _check_shape(pair.a, ("rank", inputs))
    _check_shape(pair.b, (outputs, "rank"))
    rank, b_rank = pair.a.shape[0], pair.b.shape[1]
    if rank != b_rank:
        message = f"{shown(pair.a.name)} has rank {rank} and its partner {shown(pair.b.name)} has rank {b_rank}."
        raise refusal("rank_mismatch", message, param=pair.b.name, expected=rank, found=b_rank)
    if rank > max_rank:
        message = f"{shown(pair.a.name)} has rank {rank}; this server takes ranks up to {max_rank}."
        raise refusal("rank_too_large", message, param=pair.a.name, expected=f"at most {max_rank}", found=rank)
    if (written := config.rank_of(pair.module_name)) != rank:
        message = f"{shown(pair.a.name)} has rank {rank}, but adapter_config.json gives it {written} (r or rank_pattern)."
        raise refusal("rank_mismatch", message, param=pair.a.name, expected=written, found=rank)


def refuse_empty(tensor: StoredTensor) -> None:
    """A shape with a zero in it is what an ungathered sharded training leaves behind."""
    if 0 in tensor.shape:
        message = f"{shown(tensor.name)} is empty: was the training state gathered before it was saved (ZeRO-3, FSDP)?"
        raise refusal("empty_tensor", message, param=tensor.name, expected="values", found=list(tensor.shape))


def read_matrices(file: FileIO, pairs: Sequence[Pair], config: AdapterConfig, base: BaseShape) -> Iterator[Matrix]:
    """The values of checked pairs, fused ones split. Raises AdapterRefused on values that are not finite."""
    for pair in pairs:
        a, b = _read_finite(file, pair.a), _read_finite(file, pair.b)
        scale = config.scale(pair.module_name, a.shape[0])
        modules = FUSED.get(pair.target, (pair.target,))
        parts = torch.split(b, [base.module_dims[module][1] for module in modules])
        for module, part in zip(modules, parts, strict=True):
            index = MODULES.index(module)
            yield Matrix(layer=pair.layer, module=index, a=a, b=part, scale=scale, a_name=pair.a.name, b_name=pair.b.name)


def _read_finite(file: FileIO, stored: StoredTensor) -> Tensor:
    values = read_tensor(file, stored)
    if not torch.isfinite(values).all():
        count = int((~torch.isfinite(values)).sum())
        message = f"{shown(stored.name)} has {count} values that are NaN or infinite."
        raise refusal("non_finite", message, param=stored.name, expected=0, found=count)
    return values


def _dims(target: str, base: BaseShape) -> tuple[int, int]:
    """(in, out) of a projection; a fused one has the rows of all its parts."""
    modules = FUSED.get(target, (target,))
    return base.module_dims[modules[0]][0], sum(base.module_dims[module][1] for module in modules)


def _check_shape(tensor: StoredTensor, expected: tuple[int | str, int | str]) -> None:
    fits = len(tensor.shape) == len(expected) and all(want in ("rank", size) for want, size in zip(expected, tensor.shape, strict=True))
    if not fits:
        wanted = f"[{expected[0]}, {expected[1]}]"
        message = f"{shown(tensor.name)} is {list(tensor.shape)}; on this base it must be {wanted}."
        raise refusal("shape_mismatch", message, param=tensor.name, expected=wanted, found=list(tensor.shape))
