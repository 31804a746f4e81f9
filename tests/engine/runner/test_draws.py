"""A draw follows its seed and the distribution, and not the last bits of the logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.ids import RequestId
from engine.request import Request, SamplingParams
from engine.runner.sampler import sample
from engine.sequence import Sequence

VOCAB = 48_000


def drawn(logits: Tensor, params: SamplingParams, count: int) -> list[int]:
    """A token for each of many choices, which differ in their random number alone."""
    request = Request(id=RequestId("r"), model="base", prompt_ids=(1,), sampling=params)
    rows = [
        Sequence(key=index, request=request, index=index, adapter=None, token_ids=[1], num_prompt=1, arrived_s=0.0)
        for index in range(count)
    ]
    return [token.token_id for token in sample(logits.expand(count, -1), rows)]


@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, 0), (0.9, 0)], ids=str)
def test_rounding_moves_no_draw(top_p: float, top_k: int) -> None:
    """Of a flat distribution, whose order by value the last bits decide: what other rows of a step change is no other answer."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(VOCAB, generator=generator)
    params = SamplingParams(temperature=2.0, seed=5, top_p=top_p, top_k=top_k)
    moved = logits + 6e-6 * torch.randn(VOCAB, generator=generator)
    assert drawn(logits, params, 60) == drawn(moved, params, 60)


@pytest.mark.parametrize(("top_p", "top_k", "kept"), [(1.0, 0, 4), (0.7, 0, 2), (1.0, 3, 3), (0.95, 3, 3)], ids=str)
def test_shares_are_the_distributions(top_p: float, top_k: int, kept: int) -> None:
    """The kept tokens come as often as they are likely, whatever their ids' order; the others never."""
    probabilities = torch.tensor([0.1, 0.4, 0.05, 0.45])
    tokens = drawn(probabilities.log(), SamplingParams(seed=1, top_p=top_p, top_k=top_k), 400)
    found = torch.bincount(torch.tensor(tokens), minlength=4) / 400
    least = probabilities.sort(descending=True).values[kept - 1]
    expected = torch.where(probabilities >= least, probabilities, 0.0)
    assert (found - expected / expected.sum()).abs().max() < 0.08
    assert not found[expected == 0].any()
