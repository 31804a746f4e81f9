"""One adapter: facts, the last cold start, the probe, what was checked, and the pin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console import format as fmt
from console.query import is_drifting
from console.widgets.command_dialog import command_dialog
from console.widgets.elements import box, button, drawing, icon, icon_svg, text
from console.widgets.pin_box import PinBox
from console.widgets.waterfall import waited, waterfall

if TYPE_CHECKING:
    from console.actions import Actions
    from console.adapter_view import AdapterView
    from engine import AdapterRow

ALL_MODULES = 7
LIFECYCLE_LEVELS = {"ready": "ok", "validating": "unknown", "rejected": "crit", "retired": "paused"}
PROBES = {"ok": ("ok", "Probe matches"), "mismatch": ("crit", "Probe does not match"), "unproven": ("unknown", "Not probed yet")}


def adapter_drawer(view: AdapterView, actions: Actions) -> None:
    """Open while the address names an adapter; rebuilt when another is opened or this one moves."""
    drawer = box("drawer", "aside").props('aria-label="Adapter"')
    shown: tuple[object, ...] = ()

    def update() -> None:
        nonlocal shown
        row = view.opened
        drawer.set_visibility(row is not None)
        key = _key(row)
        if key == shown:
            return
        shown = key
        drawer.clear()
        if row is not None:
            with drawer:
                _contents(row, view, actions)

    view.on_change(update)


def _key(row: AdapterRow | None) -> tuple[object, ...]:
    """What makes the drawer another one."""
    return (
        ()
        if row is None
        else (
            row.id,
            row.alias,
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
    )


def _contents(row: AdapterRow, view: AdapterView, actions: Actions) -> None:
    _head(row, view)
    _facts(row)
    _last_load(row, view)
    _proof(row)
    _placement(row, actions)
    _validation(row)


def _head(row: AdapterRow, view: AdapterView) -> None:
    tenant, slash, name = row.alias.rpartition("/")
    with box("drawer-head"):
        with box("drawer-title", "h2"):
            text(tenant + slash, "muted")
            text(name, "name")
        copy = button("", kind="quiet", glyph="copy", small=True, hint="Copy the model name").props("data-do=copy")
        copy.props["data-text"] = row.alias
        box("gap")
        button("", lambda: view.change(open=""), kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
    with box("drawer-sub"):
        text(fmt.digest(row.id), "code").props["title"] = row.id
        text(f"r{row.rank}, {module_words(row)}")
        text(fmt.size(row.bytes))
        with box("status"):
            icon(LIFECYCLE_LEVELS[row.lifecycle], LIFECYCLE_LEVELS[row.lifecycle])
            text(row.lifecycle)
        if row.synthetic:
            text("SYNTHETIC", "tag dashed")


def module_words(row: AdapterRow) -> str:
    """Which matrices it changes, in few words."""
    return (
        "all linear"
        if len(row.modules) == ALL_MODULES
        else ", ".join(module.removesuffix("_proj") for module in row.modules) or "no modules"
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


def _validation(row: AdapterRow) -> None:
    with box("section checks"):
        _check("check", "ok", f"{fmt.plural(row.num_matched, 'matrix pair')} of the base matched")
        if row.base_proof == "recorded":
            _check("check", "ok", "Base proven by its digest")
        else:
            _check("unknown", "unknown", "Base declared, not proven")
        for warning in row.warnings:
            _check("warn", "warn", warning)
        if row.source:
            text(row.source, "code source")


def _check(glyph: str, level: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, level)
        text(words)


def _placement(row: AdapterRow, actions: Actions) -> None:
    with box("section placement"):
        if row.pinned:
            with box("pin-head"):
                icon("pinned", "violet")
                text(f"Pinned to {row.pin_tier or 'device'}", "card-title")
                text(fmt.pin_end(row.pin_until, time.time()), "muted")
                box("gap")
                button("Unpin", lambda: actions.at_once("unpin", [row.id]), small=True)
            if row.pin_reason:
                text(row.pin_reason, "muted", "p")
        elif row.lifecycle == "ready":
            PinBox(row, actions)
        with box("drawer-foot"):
            if row.tier not in {"device", "loading"}:
                button("Warm…", lambda: command_dialog("warm", [row], actions), glyph="warm", small=True)
            if row.tier in {"device", "host"} and not row.pinned:
                button("Evict…", lambda: command_dialog("evict", [row], actions), kind="danger", glyph="evict", small=True)
