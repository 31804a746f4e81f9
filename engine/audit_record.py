"""One line of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.ids import TenantId


class Subject(NamedTuple):
    """What a change is about. ``tenant`` is whose it is; None is everyone's."""

    kind: str
    """``alias``, ``version``, ``key``, ``tenant``, …"""
    name: str
    tenant: TenantId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Who changed what, when, and why. ``before`` and ``after`` are None where there was nothing."""

    key: int
    at_unix: float
    by: str
    by_kind: str
    tenant: str | None
    """Whose it is; None is everyone's."""
    action: str
    """``alias.move``, ``key.revoke``, …"""
    object_kind: str
    object: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    why: str
    request: str | None
    undo_of: int | None
    """The line that this one took back."""
    hash: str
