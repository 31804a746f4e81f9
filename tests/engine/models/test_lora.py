from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor

from engine.models.decoder import DecoderModel
from engine.models.spec import MODULES, ModelSpec
from kernels.lora_batch import LoraBatch, LoraTables, cut_runs
from tests import oracle
from tests.engine.models.paged import Row, Session, in_one_pass, load_model
from tests.tiny import TINY, TINY_B, TINY_Q3, AdapterRecipe, TinyShape, write_adapter, write_base

# Scales of at most 1: with larger ones on many modules peft itself is 2e-4 from the exact answer in fp32.
RECIPES = (
    AdapterRecipe(seed=11, alpha=8),
    AdapterRecipe(seed=12, rank=33, alpha=3, modules=MODULES, rslora=True),
    AdapterRecipe(seed=13, rank=1, alpha=1, modules=("k_proj", "o_proj", "up_proj"), layers=(1,)),
    AdapterRecipe(seed=14, rank=4, alpha=4, modules=("gate_proj", "down_proj"), rank_pattern={"layers.0.mlp.down_proj": 20}),
)
BLOCK = 16
TOKENS = [int(token) for token in np.random.default_rng(6).integers(0, 256, 41)]


class HandPacked:
    """Adapters laid into a flat arena one block after another, NaN between them, independent of ``engine.adapters``."""

    def __init__(self, spec: ModelSpec, folders: Sequence[Path], max_rank: int = 48) -> None:
        self.spec = spec
        shape = (len(folders), spec.num_layers, len(MODULES))
        self.blocks = {kind: np.full((*shape, max_rank // BLOCK), -1, np.int64) for kind in "ab"}
        self.ranks = np.zeros(shape, np.int32)
        self.chunks: list[np.ndarray] = []
        self.size = 0
        for slot, folder in enumerate(folders):
            self._pack(slot, folder)

    def _pack(self, slot: int, folder: Path) -> None:
        tensors = load_file(folder / "adapter_model.safetensors")
        config = json.loads((folder / "adapter_config.json").read_text())
        for key in sorted(name for name in tensors if "lora_A" in name):
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            layer, module = int(name.split(".")[2]), MODULES.index(name.rsplit(".", 1)[1])
            a, b = tensors[key], tensors[key.replace("lora_A", "lora_B")]
            scaled = (oracle.scale_of(config, name, a.shape[0]) * b).T
            self.ranks[slot, layer, module] = a.shape[0]
            for kind, matrix in (("b", scaled), ("a", a)):
                for block in range(-(-a.shape[0] // BLOCK)):
                    self.blocks[kind][slot, layer, module, block] = self._place(matrix[block * BLOCK : (block + 1) * BLOCK])

    def _place(self, rows: np.ndarray) -> int:
        gap = np.full(16, np.nan, np.float32)
        self.chunks += [gap, np.ascontiguousarray(rows, np.float32).ravel()]
        start, self.size = self.size + gap.size, self.size + gap.size + rows.size
        return start

    def batch(self, runs: Sequence[tuple[int, int, int]]) -> LoraBatch:
        """The adapters of ``runs``: (first row, rows, slot)."""
        dims = list(self.spec.module_dims.values())
        return LoraBatch(
            arena=torch.from_numpy(np.concatenate(self.chunks)),
            tables=LoraTables(
                a_blocks=torch.from_numpy(self.blocks["a"]),
                b_blocks=torch.from_numpy(self.blocks["b"]),
                ranks=torch.from_numpy(self.ranks),
                in_features=tuple(each[0] for each in dims),
                out_features=tuple(each[1] for each in dims),
            ),
            segments=cut_runs(runs),
            version=1,
        )


@dataclasses.dataclass(frozen=True)
class Bench:
    """A base, its adapters and what the oracle says of TOKENS under each."""

    base: Path
    model: DecoderModel
    packed: HandPacked
    expected: tuple[Tensor, ...]


@pytest.fixture(scope="module", params=[TINY, TINY_B, TINY_Q3], ids=["llama", "qwen2", "qwen3"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Four adapters whose ranks, modules and layers differ."""
    folder, shape = tmp_path_factory.mktemp("lora"), request.param
    assert isinstance(shape, TinyShape)
    base = write_base(folder / "base", shape)
    adapters = [write_adapter(folder / str(recipe.seed), recipe, shape) for recipe in RECIPES]
    model = load_model(base)
    expected = tuple(oracle.logits(oracle.merged_model(base, adapter), TOKENS) for adapter in adapters)
    return Bench(base, model, HandPacked(model.spec, adapters), expected)


@pytest.mark.parametrize("slot", range(len(RECIPES)))
def test_adapter_equals_merged_weights(bench: Bench, slot: int) -> None:
    """One adapter over a prompt of three segments gives the logits of W + s·B·A, and not the base's."""
    found = in_one_pass(bench.model, TOKENS, bench.packed.batch([(0, len(TOKENS), slot)]))
    assert (found - bench.expected[slot]).abs().max() < oracle.LOGIT_TOLERANCE
    assert (found - in_one_pass(bench.model, TOKENS)).abs().max() > 0.1


def test_mixture_equals_each_alone(bench: Bench) -> None:
    """Five sequences, four adapters and the base, decoding and prefilling in one pass, each by its own weights."""
    session, last = Session(bench.model), len(TOKENS) - 1
    pages = [session.pages(len(TOKENS)) for _ in range(5)]
    for slot in (2, 0):
        session.run(prefill=[Row(TOKENS, pages[slot], 0, last)], lora=bench.packed.batch([(0, last, slot)]))
    found = session.run(
        decode=[Row(TOKENS, pages[slot], last, last + 1) for slot in (2, 0)],
        prefill=[Row(TOKENS, pages[slot], 0, last + 1) for slot in (1, 3, 4)],
        lora=bench.packed.batch([(0, 1, 2), (1, 1, 0), (2, last + 1, 1), (3 + last, last + 1, 3)]),
    )
    base = oracle.logits(oracle.base_model(bench.base), TOKENS)
    expected = torch.cat([bench.expected[2][-1:], bench.expected[0][-1:], bench.expected[1], bench.expected[3], base])
    assert (found - expected).abs().max() < oracle.LOGIT_TOLERANCE
