"""What a line of the audit log changed, in one line of words. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from console import format as fmt
from console.limits import LIMITS
from console.record_diff import Difference, differences
from console.schedule_words import when_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine import AuditRecord

SHOWN: Final = 3
"""Changed fields; of the others their number is told, and the drawer shows them."""
NAMES: Final = {limit.name: f"{limit.label} {limit.unit}".lower().replace("kv", "KV") for limit in LIMITS}
"""What a field is called where its own name is not how people say it."""
KEPT_FOR_MACHINES: Final = frozenset({"key", "created", "created_by"})
NOTHING: Final = frozenset({None, fmt.DASH, "no", "", "[]"})


def summary(line: AuditRecord) -> str:
    """What is other than before; the reason where nothing that is kept is."""
    family = line.action.partition(".")[0]
    told = TOLD.get(line.action) or TOLD.get(family) or _fields
    return told(line.before or {}, line.after or {}, line.at_unix) or line.why or fmt.DASH


def _alias(before: Mapping[str, Any], after: Mapping[str, Any], _: float) -> str:
    """Which content a name had and has, and what share of its requests try another."""
    parts = [f"version {after['number']}"] if "number" in after else []
    old, new = before.get("adapter"), after.get("adapter")
    if old != new:
        parts.append(f"{_digest(old)} → {_digest(new)}" if old and new else _digest(new) if new else f"was {_digest(old)}")
    share, was = after.get("canary_share") or 0.0, before.get("canary_share") or 0.0
    if (share, after.get("canary")) != (was, before.get("canary")):
        parts.append(f"{fmt.percent(share, 0)} % to {_digest(after.get('canary'))}" if share else "canary ended")
    if after.get("source"):
        parts.append(f"from {PurePosixPath(after['source']).name}")
    return ", ".join(parts)


def _version(before: Mapping[str, Any], after: Mapping[str, Any], at_unix: float) -> str:
    """Its pin, its state, or where it is."""
    if before.get("pin") != after.get("pin"):
        old, new = (_pin(side.get("pin"), at_unix) for side in (before, after))
        return f"{old} → {new}" if old and new else new or f"was {old}"
    if before.get("state") != after.get("state"):
        return f"{before.get('state', fmt.DASH)} → {after.get('state', fmt.DASH)}"
    return f"to {after['tier']}" if "tier" in after else ""


def _refused(_before: Mapping[str, Any], after: Mapping[str, Any], _: float) -> str:
    """Of the rows of an operation how many for which code; of one version the reason says it all."""
    if "codes" not in after:
        return ""
    codes = ", ".join(f"{code} {count:,}" for code, count in after["codes"].items())
    return f"{after['rejected']:,} of {fmt.plural(after['of'], 'row')} refused: {codes}"


def _pin(pin: Mapping[str, Any] | None, at_unix: float) -> str:
    if pin is None:
        return ""
    end = pin.get("until_unix")
    until = "no end" if end is None else f"until {fmt.pin_end(end, at_unix)}"
    why = f", “{pin['reason']}”" if pin.get("reason") else ""
    return f"{pin.get('tier', 'device')}, {until}{why}"


def _schedule(before: Mapping[str, Any], after: Mapping[str, Any], _: float) -> str:
    """When it warms, and to where."""
    old, new = ("" if not side else f"{when_words(side)} to {side['tier']}{'' if side['enabled'] else ', off'}" for side in (before, after))
    return f"{old} → {new}" if old and new else new or f"was {old}"


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], _: float) -> str:
    """Field by field: from what to what; of what is new or gone, what it has."""
    found = [each for each in differences(before, after) if each.is_change and each.name not in KEPT_FOR_MACHINES]
    parts = [part for part in (_field(each) for each in found) if part]
    more = f", {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more


def _field(each: Difference) -> str:
    old, new = (None if side in NOTHING else side for side in (each.before, each.after))
    name = NAMES.get(each.name, each.name.replace("_", " "))
    if each.before is not None and each.after is not None:
        return f"{name} {old or fmt.DASH} → {new or fmt.DASH}"
    return f"{name} {old or new}" if old or new else ""


def _digest(adapter: str | None) -> str:
    return fmt.digest(adapter) if adapter else fmt.DASH


TOLD: Final[dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], float], str]]] = {
    "alias": _alias,
    "adapter": _alias,
    "adapter.reject": _refused,
    "version.reject": _refused,
    "version": _version,
    "schedule": _schedule,
}
"""By an action or its first word; the others are told field by field."""
