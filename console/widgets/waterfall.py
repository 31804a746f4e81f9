"""The last cold start, phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.widgets.elements import box, text

if TYPE_CHECKING:
    from engine import LoadPhase, LoadRecord

LABEL_SIDE_SHARE = 0.3
"""A bar that starts after this share of the whole has its note before it, else behind it."""
FULL_SHARE = 0.7
"""A longer bar carries its note inside, on a plate."""
LEAST_SHARE = 0.008


def waterfall(load: LoadRecord) -> None:
    """One line a phase, 20 px each, on a common scale; who waited and what others lost below."""
    total_s = max(load.total_s, max((phase.start_s + phase.duration_s for phase in load.phases), default=0.0)) or 1.0
    with box("waterfall"):
        for phase in load.phases:
            _line(phase, total_s)
        text(_others(load), "others", "p")


def _line(phase: LoadPhase, total_s: float) -> None:
    start, share = phase.start_s / total_s, max(phase.duration_s / total_s, LEAST_SHARE)
    number, unit = fmt.latency(phase.duration_s)
    with box("phase"):
        text(phase.name, "phase-name")
        with box("phase-track"):
            bar = box("phase-bar s-queue" if phase.name == "load queue" else "phase-bar s-load")
            bar.style(f"left:{start:.2%};width:{share:.2%}")
            if phase.note:
                note = text(phase.note, "phase-note")
                if share > FULL_SHARE:
                    note.classes("plate").style(f"left:calc({start:.2%} + 6px)")
                elif start > LABEL_SIDE_SHARE:
                    note.style(f"right:calc({1 - start:.2%} + 5px)")
                else:
                    note.style(f"left:calc({start + share:.2%} + 5px)")
        with box("phase-ms"):
            text(number, "value")
            text(unit, "u")


def waited(load: LoadRecord) -> str:
    """Who waited for it, and how long."""
    if not load.waiters:
        return "no request waited"
    return f"{fmt.plural(len(load.waiters), 'request')} waited up to {fmt.latency_text(load.waited_max_s)}"


def _others(load: LoadRecord) -> str:
    if not load.others_steps:
        return "Other requests: no step ran beside it."
    return f"Other requests: +{fmt.latency_text(load.others_delay_s)} per step for {fmt.plural(load.others_steps, 'step')}"
