"""Events as an operator reads them: a time, a glyph, what happened, who did it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console import format as fmt
from engine import (
    AdapterEvicted,
    AdapterLoadFailed,
    AdapterPinned,
    AdapterRegistered,
    AdapterRejected,
    AdapterUnpinned,
    AdapterUnregistered,
    EngineStateChanged,
    ProbeMismatch,
    RequestFailed,
    RequestPreempted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of recent changes; ``undo`` is the verb that takes it back, on ``ref``."""

    number: int
    at_unix: float
    glyph: str
    level: str
    what: str
    who: str
    undo: str = ""
    ref: str = ""


def changes(events: Iterable[tuple[int, Event]]) -> list[Change]:
    """The events that changed something, newest first; loads are traffic and left out."""
    lines = [line for number, event in events if (line := _change(number, event)) is not None]
    return list(reversed(lines))


def _change(number: int, event: Event) -> Change | None:
    words = _words(event)
    if words is None:
        return None
    glyph, level, what, undo = words
    ref = getattr(event, "alias", "") if undo else ""
    return Change(number=number, at_unix=event.at_unix, glyph=glyph, level=level, what=what, who=event.by, undo=undo, ref=ref)


def _words(event: Event) -> tuple[str, str, str, str] | None:
    match event:
        case AdapterPinned(alias=alias, until_unix=until, at_unix=now):
            return "pin", "", f"Pinned {alias}, {'no end' if until is None else 'until ' + fmt.pin_end(until, now)}", "unpin"
        case AdapterUnpinned(alias=alias, because=because):
            return "pin", "", f"{'Pin ended:' if because == 'expired' else 'Unpinned'} {alias}", ""
        case AdapterEvicted(alias=alias, idle_s=idle_s, because=because, from_tier=tier):
            undo = "warm" if because == "operator" and tier == "device" else ""
            return "evict", "", f"Evicted {alias} from {tier}, idle {fmt.duration(idle_s)}", undo
        case AdapterRegistered(alias=alias, replaced=replaced):
            return ("arrow", "", f"{alias} moved to a new version", "") if replaced else ("plus", "", f"Registered {alias}", "")
        case AdapterUnregistered(alias=alias):
            return "close", "", f"Withdrew {alias}", ""
        case _:
            return _trouble(event)


def _trouble(event: Event) -> tuple[str, str, str, str] | None:
    match event:
        case AdapterRejected(alias=alias, message=message):
            words = "warn", f"Refused {alias}: {message}"
        case AdapterLoadFailed(alias=alias, message=message):
            words = "warn", f"{alias} did not load: {message}"
        case ProbeMismatch(alias=alias):
            words = "crit", f"Quarantined {alias}: the probe does not match"
        case RequestFailed(code=code, message=message):
            words = "warn", f"A request failed: {message} ({code})"
        case RequestPreempted(tenant=tenant, pages=pages):
            return "undo", "", f"A request of {tenant} gave back {fmt.plural(pages, 'page')}", ""
        case EngineStateChanged(before=before, after=after, because=because):
            words = "ok" if after == "serving" else "warn", f"{before} → {after}{': ' + because if because else ''}"
        case _:
            return None
    level, sentence = words
    return level, level, sentence, ""
