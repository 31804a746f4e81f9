"""Logits to tokens. A row's choice depends on its own logits, parameters and position only, never on its neighbours."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch

from engine.ids import given_id
from engine.plan import SampledToken
from engine.request import TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from torch import Tensor

    from engine.request import SamplingParams
    from engine.sequence import Sequence

NUCLEUS_GUESS = 256
"""Candidates tried first for top-p; all are sorted only when these do not reach it."""


def sample(logits: Tensor, sequences: Seq[Sequence]) -> list[SampledToken]:
    """One token a row; ``logits`` is [R, V] fp32 and row i belongs to ``sequences[i]``."""
    if not sequences:
        return []
    biased = _with_bias(logits, sequences)
    best = biased.argmax(dim=-1).tolist()
    tokens = [
        best[row] if sequence.request.sampling.temperature == 0.0 else _draw(biased[row], sequence)
        for row, sequence in enumerate(sequences)
    ]
    return [
        SampledToken(token_id=token, logprob=_logprob(logits[row], token, sequence.request.sampling.logprobs))
        for row, (token, sequence) in enumerate(zip(tokens, sequences, strict=True))
    ]


def score_tokens(logits: Tensor, token_ids: Seq[int], *, top: int) -> tuple[TokenLogprob, ...]:
    """Log-probabilities of given tokens, row by row; ``logits`` is [len(token_ids), V] fp32."""
    return tuple(scored for row, token in zip(logits, token_ids, strict=True) if (scored := _logprob(row, token, top)) is not None)


def _with_bias(logits: Tensor, sequences: Seq[Sequence]) -> Tensor:
    if not any(sequence.request.sampling.logit_bias for sequence in sequences):
        return logits
    biased = logits.clone()
    for row, sequence in enumerate(sequences):
        for token, bias in sequence.request.sampling.logit_bias.items():
            biased[row, token] += bias
    return biased


def _draw(row: Tensor, sequence: Sequence) -> int:
    """Inverse transform over the kept candidates with one uniform number a position.

    They lie in the order of their ids: among thousands of nearly equal logits the order by value changes with the last bits, which other
    rows of a step may move, and then the same number would draw another token.
    """
    params = sequence.request.sampling
    values, ids = _candidates(row, params)
    weights = (values - values.max()).double().exp()
    if params.top_p < 1.0:
        cumulative = weights.cumsum(0)
        kept = int(torch.searchsorted(cumulative, params.top_p * _mass(row, params, values, float(cumulative[-1]))).item()) + 1
        weights, ids = weights[:kept], ids[:kept]
    ids, order = ids.sort()
    cumulative = weights[order].cumsum(0)
    chosen = int(torch.searchsorted(cumulative, _uniform(sequence) * float(cumulative[-1]), right=True).item())
    return int(ids[min(chosen, len(ids) - 1)])


def _candidates(row: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """Scaled logits and their ids: the top k, or as many as the nucleus can need, best first; else all."""
    scaled = row / params.temperature
    size = scaled.shape[0]
    if 0 < params.top_k < size:
        return scaled.topk(params.top_k)
    if params.top_p == 1.0:
        return scaled, torch.arange(size, device=row.device)
    if size > NUCLEUS_GUESS:
        values, ids = scaled.topk(NUCLEUS_GUESS)
        if float((values - scaled.logsumexp(0)).exp().sum()) >= params.top_p:
            return values, ids
    return scaled.sort(descending=True)


def _mass(row: Tensor, params: SamplingParams, values: Tensor, kept_mass: float) -> float:
    """What probability 1 is, in units of exp(value - best): of the top k when given, else of the whole vocabulary."""
    if params.top_k > 0 or len(values) == row.shape[0]:
        return kept_mass
    return float((row / params.temperature - values[0]).double().exp().sum())


def _uniform(sequence: Sequence) -> float:
    """The number in [0, 1) of a seed, a choice and a position: the same after a preemption and in any batch."""
    seed = sequence.request.sampling.seed
    source = f"{seed}" if seed is not None else f"{given_id(sequence.request.id)}"
    return random.Random(f"{source}:{sequence.index}:{sequence.num_tokens}").random()  # noqa: S311 - sampling, not secrets


def _logprob(row: Tensor, token: int, top: int | None) -> TokenLogprob | None:
    if top is None:
        return None
    logprobs = row - row.logsumexp(0)
    values, ids = logprobs.topk(top) if top else (logprobs[:0], logprobs[:0])
    best = tuple((int(i), float(v)) for v, i in zip(values.tolist(), ids.tolist(), strict=True))
    return TokenLogprob(token_id=token, logprob=float(logprobs[token]), top=best)
