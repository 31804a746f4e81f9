"""Which idle adapter leaves the device first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ids import AdapterId

HALF_LIFE_S = 300.0
"""After so long without use a frequency counts half."""


class Candidate(NamedTuple):
    """A resident adapter, as eviction sees it. ``frequency`` is decayed to now. A tuple: every eviction makes one of each that is idle."""

    adapter: AdapterId
    pages: int
    frequency: float
    reload_cost: float
    """Relative cost to bring it back from where its copy is."""
    last_used_s: float
    waiting: int = 0
    """Requests that wait for it; it leaves after all that nobody waits for."""
    leases: int = 0
    pinned: bool = False


class EvictionPolicy:
    """Picks victims: least recently used, or GDSF (Cherkasova 1998) with a clock that ages what is not used.

    Owned by the engine thread. A GDSF score is the clock at last use plus frequency · reload cost / pages; the clock moves to the
    highest score evicted, so an adapter once popular falls behind those used since.
    """

    def __init__(self, name: Literal["gdsf", "lru"]) -> None:
        self.name = name
        self.clock = 0.0
        self._clock_at_use: dict[AdapterId, tuple[float, float]] = {}

    def victims(self, candidates: Iterable[Candidate], pages_needed: int) -> list[Candidate]:
        """Who leaves so that ``pages_needed`` pages come back, lowest score first; empty when even all would not do.

        Never one that is leased or pinned, and those that requests wait for last. Equal scores leave by age of last use, then by id.
        """
        idle = [candidate for candidate in candidates if not candidate.leases and not candidate.pinned]
        if pages_needed <= 0 or sum(candidate.pages for candidate in idle) < pages_needed:
            return []
        self._note_uses(idle)
        scores = {candidate.adapter: self.score(candidate) for candidate in idle}
        idle.sort(key=lambda candidate: (candidate.waiting > 0, scores[candidate.adapter], candidate.last_used_s, candidate.adapter))
        chosen = fewest(idle, pages_needed)
        if self.name == "gdsf":
            self.clock = max(self.clock, *(scores[victim.adapter] for victim in chosen))
        return chosen

    def score(self, candidate: Candidate) -> float:
        """The lower, the sooner it leaves."""
        if self.name == "lru":
            return candidate.last_used_s
        _, clock = self._clock_at_use.get(candidate.adapter, (0.0, self.clock))
        return clock + worth(candidate)

    def _note_uses(self, idle: list[Candidate]) -> None:
        # One that was not idle at the last choice, or has another time of use, was used since: the clock now is its clock.
        known = self._clock_at_use
        self._clock_at_use = {}
        for candidate in idle:
            used_s, clock = known.get(candidate.adapter, (candidate.last_used_s, self.clock))
            if used_s != candidate.last_used_s:
                clock = self.clock
            self._clock_at_use[candidate.adapter] = (candidate.last_used_s, clock)


def worth(candidate: Candidate) -> float:
    """What a page of it saves: frequency · reload cost / pages."""
    return candidate.frequency * candidate.reload_cost / max(candidate.pages, 1)


def fewest(ordered: list[Candidate], pages_needed: int) -> list[Candidate]:
    """The first of ``ordered`` that together hold enough pages, less those that are not needed after all."""
    chosen: list[Candidate] = []
    held = 0
    for candidate in ordered:
        if held >= pages_needed:
            break
        chosen.append(candidate)
        held += candidate.pages
    for candidate in reversed(chosen[:-1]):
        if held - candidate.pages >= pages_needed:
            chosen.remove(candidate)
            held -= candidate.pages
    return chosen


def decayed(frequency: float, *, since_s: float) -> float:
    """A frequency after ``since_s`` seconds without use."""
    return float(frequency * 0.5 ** (max(since_s, 0.0) / HALF_LIFE_S))
