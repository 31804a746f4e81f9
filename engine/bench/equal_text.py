"""Whether two contenders said the same, and where not, how close the call was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.bench.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.bench.adapters import Source
    from engine.bench.peers import Peer
    from engine.bench.timing import Outcome, Traffic

CLOSE_CALL = 1e-3
"""A gap of two logits below which the order of sums decides; the text after it is another, and rightly so."""


def equal_text(
    key: str, what: str, *, ours: Outcome, theirs: Outcome, traffic: Traffic, peer: Peer, adapters: Sequence[Source] | None
) -> list[Figure]:
    """Rows of the same greedy text, and by how much the peer preferred its own token where one first differs."""
    prompts = traffic.prompts()
    gaps = []
    for row, (our_row, their_row) in enumerate(zip(ours.tokens, theirs.tokens, strict=True)):
        place = first_difference(our_row, their_row)
        if place is not None:
            text = (*prompts[row], *their_row[:place])
            adapter = None if adapters is None else adapters[row]
            gaps.append(peer.logit_gap(text, their_row[place], our_row[place], adapter=adapter))
    equal = len(ours.tokens) - len(gaps)
    return [
        Figure(key=f"{key}.rows", label=f"rows compared with {what}", value=len(ours.tokens)),
        Figure(key=f"{key}.equal", label=f"rows with {what}'s greedy text", value=equal),
        Figure(key=f"{key}.largest_gap", label="largest logit gap where one differs", value=max(gaps, default=None)),
        Figure(key=f"{key}.close_calls_only", label=f"equal, or gaps under {CLOSE_CALL:g}", value=all(gap < CLOSE_CALL for gap in gaps)),
    ]


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place where they differ; None when they do not."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)
