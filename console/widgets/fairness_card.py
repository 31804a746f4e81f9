"""How evenly tenants are served, and who stood in whose way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.widgets.elements import box, say, text
from console.widgets.grid import Cell, Column, Grid, heat, words

if TYPE_CHECKING:
    from console.live import Live
    from engine import DisplacementRow, FairnessSnapshot, TenantId

SHOWN: Final = 8
FIRST: Final = Column(key="by", label="by ↓   of →", width="minmax(96px,150px)")


def fairness_card(live: Live) -> None:
    """The index over the tenants that waited, and a row for each tenant that displaced somebody."""
    with box("card table-card fairness", "section").props('aria-label="Fairness"'):
        with box("card-head"):
            text("Who displaced whom", "card-title", "h2")
            window = text("", "sub")
            with box("jain").props('title="(Σx)² ÷ (n · Σx²) over the work served per second to each tenant that had requests waiting"'):
                text("Jain index ", "muted")
                index = text("", "value")
                beside = text("", "faint")
        with box("scroll"):
            grid = Grid((FIRST,), label="Evictions caused and time stalled, by tenant")

    def update() -> None:
        fairness = live.feed.snapshot.fairness
        span = fmt.duration(fairness.window_s)
        say(window, f"evictions caused, and how long the others’ requests stalled · last {span}")
        value, words_ = jain_words(fairness)
        say(index, value)
        say(beside, f" {words_}")
        names = most_involved(fairness.displaced)
        grid.columns(
            (FIRST, *(Column(key=f"of-{place}", label=name, width="minmax(92px,1fr)", cls="num") for place, name in enumerate(names)))
        )
        grid.show([_row(by, names, fairness.displaced) for by in names if any(row.by == by for row in fairness.displaced)])
        grid.assume(empty=f"Nobody has displaced anybody in the last {span}.", head=bool(names))

    live.every(update)


def jain_words(fairness: FairnessSnapshot) -> tuple[str, str]:
    """(index, among whom)."""
    counted = sum(row.is_counted for row in fairness.tenants)
    if fairness.jain is None:
        return fmt.DASH, "nobody waited long enough to compare"
    return f"{fairness.jain:.3f}", f"of 1, among {fmt.plural(counted, 'tenant')} that waited"


def most_involved(rows: tuple[DisplacementRow, ...]) -> list[TenantId]:
    """Those that stalled others or were stalled the longest, at most ``SHOWN``, in the order of their names."""
    weight: dict[TenantId, float] = {}
    for row in rows:
        for tenant in {row.by, row.of}:
            weight[tenant] = weight.get(tenant, 0.0) + row.stalled_ms + row.evictions + row.preemptions
    return sorted(sorted(weight, key=lambda tenant: (-weight[tenant], tenant))[:SHOWN])


def _row(by: TenantId, names: list[TenantId], rows: tuple[DisplacementRow, ...]) -> dict[str, Any]:
    of = {row.of: row for row in rows if row.by == by}
    most = max((row.stalled_ms for row in rows), default=0.0)
    cells: list[list[Cell]] = [
        [words(by, "name")],
        *([_cell(of[name], most)] if name in of else [words(fmt.DASH, "faint")] for name in names),
    ]
    return {"id": by, "cells": cells, "still": True}


def _cell(row: DisplacementRow, most_ms: float) -> Cell:
    events = row.evictions + row.preemptions
    return heat(row.stalled_ms / most_ms if most_ms else 0.0, fmt.count(events), fmt.latency_text(row.stalled_ms / 1000))
