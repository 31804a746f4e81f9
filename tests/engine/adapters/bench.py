"""TINY as the parser sees it, and adapters read back out of their page images to be judged by the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from engine.adapters.layout import BLOCK_ROWS
from engine.adapters.pack import PackedAdapter, pack
from engine.adapters.peft import ParsedAdapter, parse_adapter
from engine.errors import AdapterRefused
from engine.models.spec import MODULES
from tests import oracle
from tests.tiny import BLOCKS, TINY, Tensors, TinyShape

DIGEST = "d" * 64
"""The digest of TINY in these tests: any text will do, since bases are only ever compared by it."""
PROMPT = tuple(range(65, 85))
PAGE_ELEMS = 2048
"""A KV page of TINY: 2 · 2 layers · 16 tokens · 2 heads · 16."""
MAX_RANK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What the parser must know of a base."""

    name: str = "tiny"
    num_layers: int
    vocab_size: int
    module_dims: Mapping[str, tuple[int, int]]


def base_of(shape: TinyShape = TINY, *, name: str = "tiny") -> Base:
    """The base of a TINY shape."""
    dims = {module: shape.module_dims(module) for module in MODULES}
    return Base(name=name, num_layers=shape.layers, vocab_size=shape.vocab, module_dims=dims)


def parse(folder: Path, base: Base | None = None, *, max_rank: int = MAX_RANK, compatible_base: bool = False) -> ParsedAdapter:
    """Parse for TINY."""
    return parse_adapter(folder, base or base_of(), max_rank=max_rank, base_digest=DIGEST, compatible_base=compatible_base)


@contextmanager
def refused(code: str, *, param: str | None = None, **seen: object) -> Iterator[pytest.ExceptionInfo[AdapterRefused]]:
    """The block must be refused with ``code``, at ``param``, with ``expected`` and ``found`` when given; the message is for people."""
    with pytest.raises(AdapterRefused) as caught:
        yield caught
    error = caught.value
    assert (error.code, error.status) == (code, 422), error.message
    assert param is None or error.param == param, error.param
    assert seen.items() <= {"expected": error.expected, "found": error.found}.items()
    assert error.message.isprintable()
    assert 10 < len(error.message) < 700


def packed(folder: Path, *, shape: TinyShape = TINY, dtype: torch.dtype = torch.float32, page_elems: int = PAGE_ELEMS) -> PackedAdapter:
    """Parse and pack for TINY."""
    return pack(parse(folder, base_of(shape)), page_elems=page_elems, dtype=dtype)


def rows_in_pages(image: PackedAdapter, half: str, layer: int, module: int, width: int) -> Tensor:
    """[rank, width] gathered through the block table, as a kernel reads it."""
    flat = image.pages.view(-1)
    blocks = image.table.a_blocks if half == "a" else image.table.b_blocks
    rank = int(image.table.ranks[layer, module])
    rows = [min(BLOCK_ROWS, rank - first) for first in range(0, rank, BLOCK_ROWS)]
    starts = [int(blocks[layer, module, block]) for block in range(len(rows))]
    return torch.cat([flat[start : start + count * width].view(count, width) for start, count in zip(starts, rows, strict=True)])


def deltas_in_pages(image: PackedAdapter, shape: TinyShape = TINY) -> dict[str, Tensor]:
    """s·B·A [out, in] by full module name, from the pages alone."""
    found = {}
    for layer, module in zip(*image.table.ranks.nonzero(), strict=True):
        name = MODULES[module]
        inputs, outputs = shape.module_dims(name)
        a = rows_in_pages(image, "a", layer, module, inputs)
        bt = rows_in_pages(image, "b", layer, module, outputs)
        found[f"model.layers.{layer}.{BLOCKS[name]}.{name}"] = bt.T.float() @ a.float()
    return found


def served_model(base: Path, image: PackedAdapter, shape: TinyShape = TINY) -> nn.Module:
    """The base with what the pages hold added to it."""
    model = oracle.base_model(base)
    for name, delta in deltas_in_pages(image, shape).items():
        model.get_submodule(name).weight.data += delta
    return model


def assert_served_as(oracle_model: nn.Module, served: nn.Module) -> None:
    """Equal logits at every position within the oracle's tolerance, and the same best token."""
    expected, found = oracle.logits(oracle_model, PROMPT), oracle.logits(served, PROMPT)
    assert (expected - found).abs().max() < oracle.LOGIT_TOLERANCE
    assert torch.equal(expected.argmax(dim=1), found.argmax(dim=1))


def edit_config(folder: Path, **fields: Any) -> Path:
    """The folder with fields of its config replaced."""
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def edit_tensors(folder: Path, edit: Callable[[Tensors], Tensors | None]) -> Path:
    """The folder with its tensors edited in place, or replaced by what ``edit`` returns."""
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file(edit(tensors) or tensors, path)
    return folder
