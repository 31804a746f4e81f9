"""One replica of everything per adapter: as many as memory and ``--max-replicas`` allow, the rest by arithmetic."""

from __future__ import annotations

import contextlib
from statistics import median
from typing import TYPE_CHECKING

import psutil

from engine.bench.figures import Figure, ratio
from engine.bench.mixed import rate
from engine.bench.rig import run_rows
from engine.bench.timing import Contender, Outcome, Traffic, interleave, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.bench.adapters import Source
    from engine.bench.rig import Rig
    from engine.bench.timing import Series
    from engine.engine import Engine

MARGIN = 1.5
"""A replica starts only while this many times its size is free."""


def replica_figures(rig: Rig, adapters: Sequence[Source], *, mixed: Series, mixed_bytes: int) -> list[Figure]:
    """Start replicas, each with one adapter; measure them together; compute what all adapters would take."""
    options = rig.options
    with contextlib.ExitStack() as stack:
        engines, sizes = _start(rig, adapters[: options.max_replicas], stack)
        contender = together(engines, adapters[: len(engines)])
        series = interleave(
            [contender],
            traffic=lambda repetition: _first_rows(rig.traffic(repetition), len(engines)),
            repeats=options.repeats,
            settle_s=options.settle_s,
        )["replicas"]
        fit = len(engines) + int(psutil.virtual_memory().available // max(median(sizes), 1))
    size, count = int(median(sizes)), len(adapters)
    return [
        Figure(key="replicas.started", label="replicas started, one adapter each", value=len(engines)),
        Figure(key="replicas.bytes_each", label="resident memory of one replica", value=size, unit="B", spread=(min(sizes), max(sizes))),
        rate("replicas.tokens_per_s", f"{len(engines)} replicas together", series),
        Figure(key="replicas.fit", label="replicas that this machine's memory holds", value=fit, how="computed"),
        Figure(key="replicas.bytes_all", label=f"memory of {count} replicas", value=size * count, unit="B", how="computed"),
        Figure(
            key="replicas.bytes_ratio", label=f"memory of {count} replicas ÷ one engine", value=ratio(size * count, mixed_bytes),
            unit="×", how="computed",
        ),
        Figure(
            key="replicas.ratio", label=f"mixed ÷ {count} replicas, were they as fast together as {len(engines)} are",
            value=ratio(mixed.tokens_per_s, series.tokens_per_s), unit="×", how="computed",
        ),
    ]  # fmt: skip


def together(engines: Sequence[Engine], adapters: Sequence[Source]) -> Contender:
    """All replicas at once, a row each: they share the cores, and each reads its own base."""

    def run(traffic: Traffic) -> Outcome:
        return run_rows(engines, [adapter.alias for adapter in adapters], traffic.prompts(), traffic.new_tokens)

    return Contender(name="replicas", run=run)


def _start(rig: Rig, adapters: Sequence[Source], stack: contextlib.ExitStack) -> tuple[list[Engine], list[int]]:
    """Engines and the resident bytes that each added; the first starts whatever is free."""
    engines: list[Engine] = []
    sizes: list[int] = []
    for index, adapter in enumerate(adapters):
        if sizes and psutil.virtual_memory().available < MARGIN * max(sizes):
            say(f"memory for {len(engines)} replicas")
            break
        before = psutil.Process().memory_info().rss
        engines.append(stack.enter_context(rig.engine(f"replica-{index}", [adapter])))
        sizes.append(max(0, psutil.Process().memory_info().rss - before))
    return engines, sizes


def _first_rows(traffic: Traffic, rows: int) -> Traffic:
    return Traffic(
        seed=traffic.seed, rows=rows, prompt_tokens=traffic.prompt_tokens, new_tokens=traffic.new_tokens, vocab_size=traffic.vocab_size
    )
