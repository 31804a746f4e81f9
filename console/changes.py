"""Events as an operator reads them: a time, a glyph, what happened, who did it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

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

NAMELESS: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")
"""A version that no alias names; its digest tells it apart."""


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
    return [change for _, run in groupby(reversed(lines), _makes_room) for change in _folded(list(run))]


def _makes_room(change: Change) -> bool:
    """Whether nobody asked for it: an adapter left for the pages that others needed."""
    return change.glyph == "evict" and change.who == "policy"


def _folded(run: list[Change]) -> list[Change]:
    """Many that made room, one after the other, are one line, so that they do not bury what somebody did."""
    if len(run) == 1 or not _makes_room(run[0]):
        return run
    return [replace(run[0], what=f"Evicted {len(run):,} adapters to make room, since {fmt.hour_minute(run[-1].at_unix)}")]


def _change(number: int, event: Event) -> Change | None:
    words = _words(event)
    if words is None:
        return None
    glyph, level, told, undo = words
    what = NAMELESS.sub(r"version \1", told)
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
