"""How the audit log tells of an alias. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.audit_record import Subject

if TYPE_CHECKING:
    from engine.alias import AliasName, AliasRecord


def alias_subject(alias: AliasName) -> Subject:
    """An alias, as what a change is about."""
    return Subject(kind="alias", name=alias.name, tenant=alias.tenant)


def alias_facts(alias: AliasRecord | None) -> dict[str, Any] | None:
    """What the audit log says of an alias."""
    if alias is None:
        return None
    return {
        "version": alias.version,
        "adapter": alias.adapter,
        "canary": alias.canary,
        "canary_version": alias.canary_version,
        "canary_share": alias.canary_share,
    }
