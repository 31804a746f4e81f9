"""An adapter at a glance: facts, the last cold start, the probe, and the pin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console import format as fmt
from console.views import is_drifting
from console.widgets.command_dialog import command_dialog
from console.widgets.elements import box, button, drawing, enable, icon, icon_svg, text
from console.widgets.pin_box import PinBox
from console.widgets.waterfall import waited, waterfall

if TYPE_CHECKING:
    from console.actions import Actions
    from console.adapter_view import AdapterView
    from engine import AdapterRow

PROBES = {"ok": ("ok", "Probe matches"), "mismatch": ("crit", "Probe does not match"), "unproven": ("unknown", "Not probed yet")}


def drawer_overview(row: AdapterRow, view: AdapterView, actions: Actions) -> None:
    """From where it is to what a pin would cost."""
    _facts(row)
    _last_load(row, view)
    _proof(row)
    _placement(row, actions, view.versions.why_not("operator", "Pin"))
    if row.source:
        with box("section"):
            text("From", "label")
            text(row.source, "code source")


def overview_key(row: AdapterRow) -> tuple[object, ...]:
    """What makes it another picture."""
    return (
        row.tier,
        row.pinned,
        row.pin_until,
        row.lifecycle,
        row.probe,
        row.loads,
        row.last_load,
        row.ttft_p95_s,
        row.hits,
        row.cold_starts,
    )


def _facts(row: AdapterRow) -> None:
    with box("facts"):
        with box("fact"):
            text("Tier", "label")
            with box("tier"):
                icon(row.tier)
                text(row.tier, "name")
        desired = f"{row.pin_tier or fmt.DASH}{', not there' if is_drifting(row) else ''}"
        _fact("Desired", desired)
        _fact("TTFT p95", fmt.latency_text(row.ttft_p95_s))
        _fact("Hits, cold", f"{row.hits:,}, {row.cold_starts:,}")


def _fact(label: str, value: str) -> None:
    with box("fact"):
        text(label, "label")
        text(value, "name")


def _last_load(row: AdapterRow, view: AdapterView) -> None:
    load = row.last_load
    with box("section"):
        with box("section-head"):
            text("Last load", "card-title")
            if load is not None:
                asked_unix = view.feed.snapshot.taken_unix - (view.feed.snapshot.taken_s - load.asked_s)
                text(fmt.clock(asked_unix), "faint").props["title"] = fmt.utc(asked_unix)
                box("gap")
                text(waited(load), "muted")
        if load is None:
            text("Not loaded since the start.", "faint", "p")
        else:
            waterfall(load)


def _proof(row: AdapterRow) -> None:
    level, words = PROBES[row.probe]
    with box("section probe"):
        drawing(icon_svg(level, level), "ico", "span")
        text(words)
        text(row.probe_fingerprint[:8], "code")
    with box("section checks"):
        is_proven = row.base_proof == "recorded"
        _check("check" if is_proven else "unknown", "Base proven by its digest" if is_proven else "Base declared, not proven")
        for warning in row.warnings:
            _check("warn", warning)


def _check(glyph: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, {"check": "ok"}.get(glyph, glyph))
        text(words)


def _placement(row: AdapterRow, actions: Actions, why_not: str) -> None:
    with box("section placement"):
        if row.pinned:
            with box("pin-head"):
                icon("pinned", "violet")
                text(f"Pinned to {row.pin_tier or 'device'}", "card-title")
                text(fmt.pin_end(row.pin_until, time.time()), "muted")
                box("gap")
                enable(button("Unpin", lambda: actions.at_once("unpin", [row.id]), small=True), not why_not, why_not)
            if row.pin_reason:
                text(row.pin_reason, "muted", "p")
        elif row.lifecycle == "ready" and not why_not:
            PinBox(row, actions)
        elif why_not:
            text(f"{why_not}. You see what is; operators change it.", "muted", "p")
        with box("drawer-foot"):
            if row.tier not in {"device", "loading"}:
                warm = button("Warm…", lambda: command_dialog("warm", [row], actions), glyph="warm", small=True)
                enable(warm, not why_not, why_not.replace("Pin", "Warm"))
            if row.tier in {"device", "host"} and not row.pinned:
                evict = button("Evict…", lambda: command_dialog("evict", [row], actions), kind="danger", glyph="evict", small=True)
                enable(evict, not why_not, why_not.replace("Pin", "Evict"))
