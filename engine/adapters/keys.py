"""Tensor names: every spelling in use → which layer, which module, A or B."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.adapters.refusal import refusal, shown
from engine.adapters.safetensors_file import StoredTensor
from engine.errors import AdapterRefused
from engine.models.spec import MODULES

FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""One projection in some families, several here: A is shared and B is cut by rows."""

TARGETS = {
    **{f"self_attn.{module}": module for module in (*MODULES[:4], "qkv_proj")},
    **{f"mlp.{module}": module for module in (*MODULES[4:], "gate_up_proj")},
}
PREFIXES = {"base_model.model.model.", "base_model.model.", "model.model.", "model.", ""}
"""What may stand before ``layers.N.``; any other prefix names some other part of some other model."""

KEY = re.compile(r"(?P<prefix>.*?)layers\.(?P<layer>\d{1,6})\.(?P<path>.+?)\.lora_(?P<half>[AB])(?:\.(?P<adapter>.+))?\.weight", re.DOTALL)
ORDER = {target: order for order, target in enumerate(TARGETS.values())}
Place = tuple[int, str, str]
"""Layer, target, half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Where a tensor belongs."""

    layer: int
    target: str
    """One of MODULES or of FUSED."""
    half: Literal["A", "B"]
    adapter: str
    """The name between ``lora_A`` and ``weight``; empty in plain spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two matrices of one projection, as stored."""

    layer: int
    target: str
    a: StoredTensor
    b: StoredTensor

    @property
    def module_name(self) -> str:
        """The full name that patterns are matched with."""
        return module_name(self.layer, self.target)


def module_name(layer: int, target: str) -> str:
    """``model.layers.0.self_attn.q_proj``."""
    return f"model.layers.{layer}.{next(path for path, name in TARGETS.items() if name == target)}"


def names_module(entry: str, module: str) -> bool:
    """Whether an entry of target_modules means the module, by its full path or its end; a fused form means its parts."""
    path, _, name = entry.removeprefix("base_model.model.").rpartition(".")
    place, _, projection = module.rpartition(".")
    same_place = not path or place == path or place.endswith(f".{path}")
    return same_place and not set(FUSED.get(name, (name,))).isdisjoint(FUSED.get(projection, (projection,)))


def read_key(text: str) -> Key | None:
    """None when it is no LoRA matrix of a known projection."""
    match = KEY.fullmatch(text)
    if match is None or match["prefix"] not in PREFIXES or match["path"] not in TARGETS:
        return None
    half: Literal["A", "B"] = "A" if match["half"] == "A" else "B"
    return Key(layer=int(match["layer"]), target=TARGETS[match["path"]], half=half, adapter=match["adapter"] or "")


def pair_up(tensors: Iterable[StoredTensor]) -> tuple[Pair, ...]:
    """A with its B, ordered by layer and module; every tensor has a key. Raises AdapterRefused on a twin or a missing partner."""
    halves: dict[Place, StoredTensor] = {}
    adapters: dict[str, str] = {}
    for tensor in tensors:
        key = read_key(tensor.name)
        assert key is not None
        place = (key.layer, key.target, key.half)
        first_of_adapter = adapters.setdefault(key.adapter, tensor.name)
        if place in halves or len(adapters) > 1:
            raise _ambiguous(halves[place].name if place in halves else next(iter(adapters.values())), first_of_adapter)
        halves[place] = tensor
    _refuse_fused_twins(halves)
    places = sorted({(layer, ORDER[target], target) for layer, target, _ in halves})
    return tuple(
        Pair(layer=layer, target=target, a=_half(halves, layer, target, "A"), b=_half(halves, layer, target, "B"))
        for layer, _, target in places
    )


def _half(halves: dict[Place, StoredTensor], layer: int, target: str, half: str) -> StoredTensor:
    found = halves.get((layer, target, half))
    if found is not None:
        return found
    present = halves[layer, target, "B" if half == "A" else "A"].name
    expected = f"lora_{half} of {module_name(layer, target)}"
    raise refusal("missing_pair", f"{shown(present)} has no partner: {expected} is missing.", param=present, expected=expected)


def _refuse_fused_twins(halves: dict[Place, StoredTensor]) -> None:
    """A fused matrix and one of its parts are two answers for one place."""
    for (layer, target, half), tensor in halves.items():
        for part in FUSED.get(target, ()):
            if (twin := halves.get((layer, part, half))) is not None:
                raise _ambiguous(twin.name, tensor.name)


def _ambiguous(one: str, other: str) -> AdapterRefused:
    message = f"Two adapters or spellings in one file: {shown(one)} and {shown(other)}."
    return refusal("ambiguous_keys", message, param=other, expected="one tensor for each matrix", found=one)
