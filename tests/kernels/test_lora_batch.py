"""A batch says which rows belong to which adapter, and when it may be used again."""

from __future__ import annotations

import pytest
import torch

from kernels import cut_runs
from kernels.lora_plan import plan_products
from tests.kernels.adapters import MIXES, adapters_of


def test_runs_are_cut_at_16() -> None:
    """37 rows are three segments; what is left of the capacity is dead."""
    segments = cut_runs([(2, 37, 5), (40, 1, 3)], capacity=6)
    assert segments.start.tolist() == [2, 18, 34, 40, 0, 0]
    assert segments.rows.tolist() == [16, 16, 5, 1, 0, 0]
    assert segments.slot.tolist() == [5, 5, 5, 3, 0, 0]
    assert segments.runs == ((2, 37, 5), (40, 1, 3))
    assert segments.start.dtype == torch.int32


def test_refuses_more_than_fits() -> None:
    """No segment is dropped silently."""
    with pytest.raises(ValueError, match="3 segments do not fit in 2"):
        cut_runs([(0, 33, 0)], capacity=2)


def test_serves_the_same_runs_and_version_only() -> None:
    """A moved run or a new table needs a new batch."""
    batch = adapters_of((4, 8)).batch(((0, 1, 0), (1, 2, 1)))
    assert batch.serves([(0, 1, 0), (1, 2, 1)], 1)
    assert not batch.serves([(0, 1, 0), (1, 2, 1)], 2)
    assert not batch.serves([(0, 1, 0), (1, 1, 1)], 1)


def test_calls_are_made_once() -> None:
    """The same object every step."""
    batch = adapters_of((4,)).batch(((0, 1, 0),))
    assert batch.call(1, "down") is batch.call(1, "down")
    assert batch.plan is batch.plan


@pytest.mark.parametrize("mix", MIXES)
def test_plan_of_side_by_side_blocks_is_one_product(mix: str) -> None:
    """Blocks that follow one another, q, k and v included, are one product of a shrink and three of an expand."""
    adapters = adapters_of((40,) * 6)
    width, rank = 40, 40
    for layer in range(2):
        for module in range(7):
            adapters.tables.ranks[:, layer, module] = rank
            for block in range(3):
                adapters.tables.a_blocks[:, layer, module, block] = (module * rank + 16 * block) * width
                adapters.tables.b_blocks[:, layer, module, block] = block * 16 * adapters.tables.out_features[module]
    plan = plan_products(adapters.batch(MIXES[mix]))
    for layer in range(2):
        assert [len(wave) for wave in plan.shrink["qkv"][layer]] == [len(MIXES[mix])] * bool(MIXES[mix])
        assert [len(wave) for wave in plan.expand["qkv"][layer]] == [3 * len(MIXES[mix])] * bool(MIXES[mix])


def test_pieces_of_one_matrix_are_in_different_waves() -> None:
    """Products that add into the same outputs may not run at once: the n-th wave has every matrix of more than n pieces."""
    adapters = adapters_of((17, 48, 64, 256))
    tables, runs = adapters.tables, ((0, 1, 0), (1, 1, 1), (2, 1, 2), (3, 1, 3))
    plan = plan_products(adapters.batch(runs))
    for layer in range(2):
        counts = []
        for slot in range(4):
            for module in range(3):
                offsets, rank = tables.b_blocks[slot, layer, module], int(tables.ranks[slot, layer, module])
                steps = offsets[1 : -(-rank // 16)] - offsets[: max(0, -(-rank // 16) - 1)]
                counts.append(bool(rank) + int((steps != 16 * tables.out_features[module]).sum()))
        assert max(counts) > 2
        assert [len(wave) for wave in plan.expand["qkv"][layer]] == [sum(count > n for count in counts) for n in range(max(counts))]
