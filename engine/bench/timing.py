"""Fair timing: the same prompts for every contender, one after the other, repetition by repetition, medians at the end."""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WARM_TOKENS = 4
"""New tokens of the run before each that counts: allocations, thread pools and the faults of pages that lay idle are then over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one repetition asks: ``rows`` prompts of random ids, another set for every seed, so that no prefix is known."""

    seed: int
    rows: int
    prompt_tokens: int
    new_tokens: int
    vocab_size: int

    def prompts(self) -> tuple[tuple[int, ...], ...]:
        """[rows][prompt_tokens] ids from the middle half of the vocabulary, where no special token is."""
        draw = random.Random(self.seed)
        ids = range(self.vocab_size // 4, 3 * self.vocab_size // 4)
        return tuple(tuple(draw.choices(ids, k=self.prompt_tokens)) for _ in range(self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one contender did with one traffic."""

    seconds: float
    """From the first request to the last token, prompts included."""
    tokens: tuple[tuple[int, ...], ...]
    """New ids of each row."""

    @property
    def tokens_per_s(self) -> float:
        """New tokens of all rows, a second."""
        return sum(map(len, self.tokens)) / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Someone who answers traffic and says how long it took."""

    name: str
    run: Callable[[Traffic], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A contender's outcomes, one a repetition."""

    outcomes: tuple[Outcome, ...]

    @property
    def tokens_per_s(self) -> float:
        """The median."""
        return median(outcome.tokens_per_s for outcome in self.outcomes)

    @property
    def spread(self) -> tuple[float, float]:
        """The slowest and the fastest repetition."""
        return spread_of([outcome.tokens_per_s for outcome in self.outcomes])


def interleave(contenders: Sequence[Contender], *, traffic: Callable[[int], Traffic], repeats: int, settle_s: float) -> dict[str, Series]:
    """Let them take turns, each warmed right before it is timed: what the machine does meanwhile hits all alike.

    Repetition 0 warms; 1 to ``repeats`` count. Between two runs, ``settle_s`` lets idle re-checks and spinning threads end.
    """
    warm = dataclasses.replace(traffic(0), new_tokens=min(WARM_TOKENS, traffic(0).new_tokens))
    outcomes: dict[str, list[Outcome]] = {contender.name: [] for contender in contenders}
    for repetition in range(1, repeats + 1):
        for contender in contenders:
            say(f"warming {contender.name}")
            contender.run(warm)
            time.sleep(settle_s)
            outcome = checked(contender.name, contender.run(traffic(repetition)), traffic(repetition))
            outcomes[contender.name].append(outcome)
            say(f"{repetition}/{repeats} {contender.name}: {outcome.tokens_per_s:.1f} tok/s")
    return {name: Series(outcomes=tuple(found)) for name, found in outcomes.items()}


def checked(name: str, outcome: Outcome, traffic: Traffic) -> Outcome:
    """The outcome, once every row has all its tokens: fewer would be timed as faster."""
    short = [len(row) for row in outcome.tokens if len(row) != traffic.new_tokens]
    assert len(outcome.tokens) == traffic.rows, f"{name} answered {len(outcome.tokens)} of {traffic.rows} rows"
    assert not short, f"{name} gave {short} of {traffic.new_tokens} tokens"
    return outcome


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest."""
    return min(values), max(values)


def say(text: str) -> None:
    """Progress, beside what is printed for machines."""
    print(text, file=sys.stderr, flush=True)
