"""The naive ways to serve many adapters, beside one mixed batch: one at a time, merge and restore, a replica each."""

from __future__ import annotations

import dataclasses
from statistics import median
from typing import TYPE_CHECKING

from engine.bench.figures import Figure
from engine.bench.mixed import quotient, rate
from engine.bench.peers import Peer
from engine.bench.replicas import replica_figures
from engine.bench.rig import run_rows, served
from engine.bench.timing import Contender, Outcome, Traffic, interleave, spread_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.bench.adapters import Source
    from engine.bench.rig import Rig
    from engine.bench.timing import Series
    from engine.engine import Engine

OTHER_PROMPTS = 1_000_000
"""Added to the seed of who shares an engine with another contender, so that neither finds the other's prefixes."""


def naive(rig: Rig) -> list[Figure]:
    """The heavy mix in every way, turn by turn; then replicas, as many as fit."""
    heavy, options = rig.sources("heavy"), rig.options
    merging = Merging(Peer(rig.base, heavy), heavy) if options.peers else None
    with rig.engine("mixed", heavy) as engine:
        contenders = [served("mixed", engine, [adapter.alias for adapter in heavy]), one_at_a_time(engine, heavy)]
        contenders += [] if merging is None else [Contender(name="merge", run=merging.run)]
        series = interleave(contenders, traffic=rig.traffic, repeats=options.repeats, settle_s=options.settle_s)
        mixed_bytes = device_bytes(engine, heavy)
    merge_s, unmerge_s = ([], []) if merging is None else (merging.merge_s, merging.unmerge_s)
    return [
        rate("tokens_per_s", "heavy mix, one mixed batch", series["mixed"]),
        *_against("one_at_a_time", "one adapter at a time, our engine", series),
        *_against("merge", "merge, answer, restore (transformers + peft)", series),
        _seconds("merge.merge_s", "merging one adapter into the base", merge_s),
        _seconds("merge.restore_s", "restoring the base", unmerge_s),
        Figure(key="memory_bytes", label="base and all adapters, one engine", value=mixed_bytes, unit="B"),
        *replica_figures(rig, heavy, mixed=series["mixed"], mixed_bytes=mixed_bytes),
    ]


def one_at_a_time(engine: Engine, adapters: Sequence[Source]) -> Contender:
    """Our engine, each adapter's row answered to its end before the next begins."""

    def run(traffic: Traffic) -> Outcome:
        prompts = dataclasses.replace(traffic, seed=traffic.seed + OTHER_PROMPTS).prompts()
        return in_sequence(
            [run_rows([engine], [adapter.alias], [prompt], traffic.new_tokens) for adapter, prompt in zip(adapters, prompts, strict=True)]
        )

    return Contender(name="one_at_a_time", run=run)


class Merging:
    """A peer whose base takes each adapter in by its weights, answers, and is restored. It keeps what that took."""

    def __init__(self, peer: Peer, adapters: Sequence[Source]) -> None:
        self.merge_s: list[float] = []
        self.unmerge_s: list[float] = []
        self._peer = peer
        self._adapters = adapters

    def run(self, traffic: Traffic) -> Outcome:
        """Every row, one after the other; merging and restoring count."""
        outcomes = []
        for adapter, prompt in zip(self._adapters, traffic.prompts(), strict=True):
            merge_s, outcome, unmerge_s = self._peer.merged(adapter, prompt, traffic.new_tokens)
            outcomes.append(dataclasses.replace(outcome, seconds=merge_s + outcome.seconds + unmerge_s))
            self.merge_s.append(merge_s)
            self.unmerge_s.append(unmerge_s)
        return in_sequence(outcomes)


def in_sequence(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome of several that followed one another."""
    return Outcome(
        seconds=sum(outcome.seconds for outcome in outcomes), tokens=tuple(row for outcome in outcomes for row in outcome.tokens)
    )


def device_bytes(engine: Engine, adapters: Sequence[Source]) -> int:
    """What a base and these adapters hold on the device: weights and whole pages."""
    names = {adapter.alias for adapter in adapters}
    snapshot = engine.snapshot()
    return snapshot.memory.base_bytes + sum(row.bytes for row in snapshot.adapters if row.alias in names)


def _against(name: str, label: str, series: dict[str, Series]) -> list[Figure]:
    other = series.get(name)
    return [
        rate(f"{name}.tokens_per_s", label, other),
        quotient(f"{name}.ratio", f"mixed ÷ {label}", series["mixed"], other),
    ]


def _seconds(key: str, label: str, values: Sequence[float]) -> Figure:
    if not values:
        return Figure(key=key, label=label, value=None, unit="s")
    return Figure(key=key, label=label, value=median(values), unit="s", spread=spread_of(values))
