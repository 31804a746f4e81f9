"""How things are, in one sentence and one reason. Pure: a snapshot in, words out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from console import format as fmt

if TYPE_CHECKING:
    from engine import AdapterRow, EngineSnapshot, WaitingRow

Level = Literal["ok", "warn", "crit", "paused", "unknown"]

LONG_WAIT_S: Final = 2.0
"""A request that has waited longer than this is worth a warning."""

STATE_WORDS: Final[dict[str, tuple[Level, str]]] = {
    "starting": ("paused", "Starting"),
    "serving": ("ok", "Serving"),
    "degraded": ("warn", "Degraded"),
    "draining": ("paused", "Draining"),
    "down": ("crit", "Down"),
}

CAUSES: Final = {
    "tenant_limit": "a tenant’s limit",
    "kv_pages": "pages for their keys and values",
    "adapter_pages": "pages for an adapter",
    "adapter_loading": "an adapter to load",
    "batch_full": "a place in the batch",
    "fair_share": "their tenant’s turn",
    "draining": "an adapter that is leaving",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A level, a sentence, and the reason behind it."""

    level: Level
    sentence: str
    reason: str


def verdict(snapshot: EngineSnapshot) -> Verdict:
    """The worst thing that is true now."""
    level, word = STATE_WORDS[snapshot.state]
    if snapshot.state != "serving":
        since = f" since {fmt.hour_minute(snapshot.state_since_unix)}" if snapshot.state_since_unix else ""
        return Verdict(level=level, sentence=f"{word}{since}", reason=snapshot.state_reason or "No reason was recorded.")
    mismatched = [row for row in snapshot.adapters if row.probe == "mismatch"]
    if mismatched:
        return _quarantine(mismatched)
    slow = [row for row in snapshot.requests.waiting if row.waited_s > LONG_WAIT_S]
    if slow:
        return _waiting(snapshot, slow)
    return Verdict(level="ok", sentence="Serving normally", reason=_calm(snapshot))


def _quarantine(rows: list[AdapterRow]) -> Verdict:
    names = ", ".join(row.alias for row in rows[:3])
    sentence = f"{fmt.plural(len(rows), 'adapter')} no longer answer{'s' if len(rows) == 1 else ''} as registered."
    return Verdict(level="crit", sentence=sentence, reason=f"Quarantined after the probe: {names}.")


def _waiting(snapshot: EngineSnapshot, slow: list[WaitingRow]) -> Verdict:
    waiting = snapshot.requests.waiting
    reason, number = Counter(row.reason for row in waiting).most_common(1)[0]
    longest = max(slow, key=lambda row: row.waited_s)
    verb = "waits" if len(waiting) == 1 else "wait"
    share = "" if number == len(waiting) else f", {number} of them"
    sentence = f"{fmt.plural(len(waiting), 'request')} {verb}{share} for {CAUSES[reason]}."
    return Verdict(
        level="warn", sentence=sentence, reason=f"The longest has waited {fmt.latency_text(longest.waited_s)} for {longest.model}."
    )


def _calm(snapshot: EngineSnapshot) -> str:
    running, waiting, rates = len(snapshot.requests.running), len(snapshot.requests.waiting), snapshot.rates
    window = fmt.duration(rates.window_s)
    if not running and not waiting and not rates.requests:
        return f"No request in the last {window}. {fmt.plural(len(snapshot.adapters), 'adapter')} registered."
    parts = [f"{running:,} running, {waiting:,} waiting"]
    if rates.ttft_p95_s is not None:
        parts.append(f"first token within {fmt.latency_text(rates.ttft_p95_s)} for 95 % of the last {window}")
    return "; ".join(parts) + "."
