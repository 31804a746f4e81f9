"""An operation as people read it: what it is, how far, how long still. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console import format as fmt

if TYPE_CHECKING:
    from engine import OperationRecord, Progress

KINDS: Final = {"import.manifest": "Manifest", "import.scan": "Prefix", "import.upload": "Archive", "import.base": "Base upgrade"}
STATES: Final = {
    "reading": ("unknown", "unknown"),
    "queued": ("paused", "paused"),
    "running": ("play", "muted"),
    "done": ("ok", "ok"),
    "cancelled": ("stop", "muted"),
    "failed": ("crit", "crit"),
}
"""(icon, colour) of a state's word."""
OUTCOMES: Final = {
    "new": ("plus", "muted"),
    "updated": ("arrow", "muted"),
    "unchanged": ("check", "ok"),
    "rejected": ("crit", "crit"),
    "": ("paused", "unknown"),
}
UNFINISHED: Final = frozenset({"reading", "queued", "running"})


def title(record: OperationRecord) -> str:
    """What was imported, and from where."""
    source = record.options.get("source") or ""
    if record.kind == "import.base":
        source = f"to {fmt.digest(record.options.get('base_digest', ''))}"
    return f"{KINDS.get(record.kind, record.kind)}{f' {source}' if source else ''}"


def share(record: OperationRecord) -> float:
    """0 to 1 of its rows are at their end."""
    return (record.done + record.failed) / record.total if record.total else 1.0


def waiting(record: OperationRecord) -> int:
    """Rows that no one has looked at yet."""
    return max(0, record.total - record.done - record.failed)


def how_far(progress: Progress) -> str:
    """As in "1,240 of 5,000, 62 per s, 61 s left"; the parts that are known."""
    record = progress.record
    parts = [f"{record.done + record.failed:,} of {record.total:,}"]
    if progress.stalled:
        return f"{parts[0]}, waiting: {progress.stalled}"
    if progress.per_s is not None:
        parts.append(f"{fmt.rate(progress.per_s)} per s")
    if progress.eta_s is not None:
        parts.append(f"{fmt.duration(progress.eta_s)} left")
    return ", ".join(parts)


def ended(record: OperationRecord) -> str:
    """How it ended, in a sentence."""
    taken = f"{fmt.plural(record.done, 'row')} taken in" if record.done != 1 else "1 row taken in"
    refused = f", {record.failed:,} rejected" if record.failed else ""
    if record.state == "done":
        return f"{taken}{refused}."
    if record.state == "cancelled":
        return f"Cancelled: {taken}{refused}, {waiting(record):,} left."
    return f"Stopped: {record.message}" if record.message else f"{taken}{refused}."
