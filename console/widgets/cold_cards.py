"""Under the lanes: the same text, what was checked, and what keeping adapters ready costs in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import cold_warm as view
from console import format as fmt
from console.widgets.elements import box, icon, text
from engine import LANES

if TYPE_CHECKING:
    from console.feed import Feed
    from engine import ColdWarmState


class ColdCards:
    """Three cards. Belongs to one client."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        with box("cold-cards"):
            self._text = box("card cold-card", "section")
            self._checks = box("card cold-card", "section")
            self._memory = box("card cold-card", "section")
        self._memory_drawn: object = None
        self._resident_bytes: int | None = None

    def show(self, state: ColdWarmState) -> None:
        """After each run."""
        self._text.clear()
        with self._text:
            _same_text(state)
        self._checks.clear()
        with self._checks:
            _checks(state)
        self._resident_bytes = view.resident_bytes(state)
        self.show_memory()

    def show_memory(self) -> None:
        """Adapters beside one base, and a replica for each: the ledger's bytes, and their sums."""
        memory, adapters = self._feed.snapshot.memory, self._feed.snapshot.adapters
        stored = sum(row.bytes for row in adapters)
        drawn = (memory.base_bytes, stored, len(adapters), self._resident_bytes)
        if drawn == self._memory_drawn:
            return
        self._memory_drawn = drawn
        self._memory.clear()
        with self._memory:
            _memory(memory.base_bytes, stored, len(adapters), self._resident_bytes)


def _same_text(state: ColdWarmState) -> None:
    counted, lanes = state.counted, view.measured_lanes(state)
    differs = view.differences_words(state)
    if not counted:
        text("Same text in all lanes", "card-title", "h2")
        text("Each run's greedy tokens are compared with the first one's.", "faint", "p")
        return
    with box("cold-card-head"):
        icon("warn" if differs else "check", "warn" if differs else "ok")
        everywhere = "all six lanes" if lanes == len(LANES) else fmt.plural(lanes, "lane")
        text(differs or f"Same text in {everywhere}", "card-title", "h2")
    text(f"“{state.text.strip()}”", "cold-text", "p")
    tokens, runs = len(counted[0].token_ids), sum(len(result.runs) for result in state.results)
    same = len(counted) - len(state.differences)
    with box("cold-card-foot"):
        text(f"{fmt.plural(tokens, 'token')}, {same} of {runs} runs, greedy")
        text(view.token_digest(counted[0]), "code")


def _checks(state: ColdWarmState) -> None:
    text("Checked before each run", "card-title", "h2")
    runs = any(result.runs for result in state.results)
    if not runs:
        text("Tier and pin of the adapter are read, the image is out of the page cache, and nothing else runs.", "faint", "p")
        return
    with box("checks"):
        for holds, words in view.checks(state):
            with box("check-line"):
                icon("check" if holds else "warn", "ok" if holds else "warn")
                text(words)
        with box("check-line"):
            icon("check", "ok")
            text(f"version {fmt.digest(state.adapter or '')}, image verified at each read")


def _memory(base_bytes: int, stored_bytes: int, count: int, resident_bytes: int | None) -> None:
    text(f"Keeping {fmt.plural(count, 'adapter')} ready", "card-title", "h2")
    beside, replicas = base_bytes + stored_bytes, base_bytes * count + stored_bytes
    if not base_bytes or not count:
        text(fmt.DASH, "faint")
        return
    unit = fmt.unit_of(replicas)
    for words, amount, kind in (("beside one base", beside, "k-adapter"), (f"as {fmt.plural(count, 'replica')}", replicas, "k-prefill")):
        with box("cold-sum"):
            text(words, "muted")
            with box("cold-number"):
                text(fmt.memory(amount, unit), "n")
                text(unit, "u")
        with box("cold-sum-track"):
            box(f"fill {kind}").style(f"width:{amount / replicas:.2%}")
    measured = f" One replica's process held {fmt.size(resident_bytes)}, measured." if resident_bytes is not None else ""
    text(f"Computed from the ledger: base weights and whole adapter pages, without the room for answers.{measured}", "faint", "p")
