"""How people, and the audit log, refer to a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.audit_record import Subject

if TYPE_CHECKING:
    from engine.version import VersionRecord


def version_subject(record: VersionRecord) -> Subject:
    """A version, as what a change is about."""
    return Subject(kind="version", name=title(record), tenant=record.tenant)


def title(record: VersionRecord) -> str:
    """How people refer to a version: line and number."""
    return f"{record.line}@{record.number}"
