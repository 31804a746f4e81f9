"""The saved views and facets of the adapters page: which rows belong. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine import AdapterRow

HOT_PER_MIN: Final = 1.0
State = Literal["ready", "unproven", "validating", "quarantined", "rejected", "retired", "archived"]
STATE_ORDER: Final[tuple[State, ...]] = ("quarantined", "rejected", "validating", "unproven", "retired", "archived", "ready")
STATE_GLYPHS: Final[dict[str, tuple[str, str]]] = {
    "ready": ("ok", "ok"),
    "unproven": ("unknown", "unknown"),
    "validating": ("unknown", "unknown"),
    "registered": ("unknown", "unknown"),
    "quarantined": ("crit", "crit"),
    "rejected": ("crit", "crit"),
    "retired": ("paused", "paused"),
    "draining": ("draining", "muted"),
    "archived": ("archive", "muted"),
}
"""(icon, colour) of a state's word."""


def state_of(row: AdapterRow) -> State:
    """What an operator calls it: the stored lifecycle, and what the probe has to say."""
    if row.probe == "mismatch":
        return "quarantined"
    if row.lifecycle != "ready":
        return row.lifecycle
    return "unproven" if row.probe == "unproven" else "ready"


def cold_share(row: AdapterRow) -> float | None:
    """Cold starts among the requests that needed this adapter; None when there were none."""
    asked = row.cold_starts + row.hits
    return row.cold_starts / asked if asked else None


def is_drifting(row: AdapterRow) -> bool:
    """Whether it is not where a pin wants it."""
    return row.pin_tier is not None and row.tier not in {row.pin_tier, "loading"} and row.tier != "device"


VIEWS: Final[dict[str, tuple[str, Callable[[AdapterRow], bool]]]] = {
    "all": ("All", lambda row: row.lifecycle in {"ready", "validating"}),
    "hot": ("Hot now", lambda row: row.requests_per_min >= HOT_PER_MIN),
    "cold": ("Cold starts", lambda row: row.cold_starts > 0),
    "idle": ("Idle on device", lambda row: row.tier == "device" and not row.leases and not row.requests_per_min),
    "unproven": ("Unproven", lambda row: state_of(row) == "unproven"),
}
"""Of what serves: rows that the engine keeps."""
FACETS: Final[dict[str, tuple[str, Callable[[AdapterRow], bool]]]] = {
    "device": ("device", lambda row: row.tier in {"device", "draining"}),
    "host": ("host", lambda row: row.tier == "host"),
    "disk": ("disk", lambda row: row.tier == "disk"),
    "remote": ("remote", lambda row: row.tier == "remote"),
    "loading": ("loading", lambda row: row.tier == "loading"),
    "pinned": ("pinned", lambda row: row.pinned),
    "drift": ("out of sync", is_drifting),
    "quarantined": ("quarantined", lambda row: row.probe == "mismatch"),
}
ALTERNATIVES: Final = frozenset({"device", "host", "disk", "remote", "loading"})
"""Facets of which a row has one: several are an either-or."""
KINDS: Final = tuple((1 << place, test) for place, (_, test) in enumerate((VIEWS | FACETS).values()))
BITS: Final = {name: 1 << place for place, name in enumerate(VIEWS | FACETS)}


def marks_of(row: AdapterRow) -> int:
    """A bit for every view and facet that it is in."""
    return sum([bit for bit, test in KINDS if test(row)])


def mark(*names: str) -> int:
    """The bits of these views and facets."""
    return sum(BITS[name] for name in names)
