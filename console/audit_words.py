"""A line of the audit log as an operator reads it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import format as fmt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine import AuditRecord

WHAT: Final = {
    "adapter.register": ("plus", "Registered"),
    "adapter.reject": ("crit", "Refused"),
    "alias.create": ("plus", "Named"),
    "alias.move": ("arrow", "Moved"),
    "alias.rollback": ("undo", "Rolled back"),
    "alias.promote": ("arrow", "Promoted"),
    "alias.canary": ("canary", "Canary"),
    "alias.drop": ("close", "Withdrew"),
    "version.retire": ("paused", "Retired"),
    "version.reject": ("crit", "Rejected"),
    "version.archive": ("archive", "Archived"),
    "archive.delete": ("close", "Deleted the archive of"),
    "version.restore": ("undo", "Restored"),
    "version.pin": ("pin", "Pinned"),
    "version.unpin": ("pin", "Unpinned"),
    "version.warm": ("warm", "Warmed"),
    "version.evict": ("evict", "Evicted"),
}


def audit_words(line: AuditRecord, numbers: Mapping[int, int]) -> tuple[str, str, str]:
    """(glyph, what happened to what, from what to what). ``numbers`` says which version a key is."""
    glyph, verb = WHAT.get(line.action, ("arrow", line.action))
    if line.undo_of is not None:
        glyph = "undo"
    return glyph, f"{verb} {line.object}", _change(line.before or {}, line.after or {}, numbers)


def _change(before: Mapping[str, Any], after: Mapping[str, Any], numbers: Mapping[int, int]) -> str:
    parts = []
    if "version" in before or "version" in after:
        old, new = (_number(side.get("version"), numbers) for side in (before, after))
        if old != new:
            parts.append(f"{old} → {new}")
    if after.get("canary_share") or before.get("canary_share"):
        share = after.get("canary_share") or 0.0
        parts.append(f"{fmt.percent(share, 0)} % to {_number(after.get('canary_version'), numbers)}" if share else "no canary")
    if "state" in after and before.get("state") != after["state"]:
        parts.append(f"{before.get('state', fmt.DASH)} → {after['state']}")
    if "tier" in after and "state" not in after:
        parts.append(f"to {after['tier']}")
    return ", ".join(parts)


def _number(key: object, numbers: Mapping[int, int]) -> str:
    return fmt.DASH if key is None else str(numbers.get(key, key)) if isinstance(key, int) else str(key)
