"""A canary that cannot serve: its alias goes on without it, and the log says so."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from engine.caller import SYSTEM
from engine.events import AliasMoved
from engine.registry import aliases, audit
from engine.registry.alias_words import alias_facts, alias_subject

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.adapters.entry import AdapterEntry
    from engine.alias import AliasName, AliasRecord
    from engine.caller import Caller
    from engine.ids import AdapterId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord


def end_canaries(host: ModelHost, entry: AdapterEntry, why: str) -> None:
    """Aliases that try this version name their stable one alone, soon: the database first. Engine thread; never blocks."""
    for name in entry.canary_of:
        host.catalog.store.later(partial(_end, host, name, entry.record.id, why), then=partial(_follow, host))


def without_canary(
    session: Session, alias: AliasRecord, version: VersionRecord, *, caller: Caller, why: str, undo_of: int | None = None
) -> AliasRecord:
    """The alias names ``version`` alone, with its line in the log."""
    now = aliases.point(session, alias.alias, version, by=caller.name, kind="canary", why=why)
    facts = alias_facts(alias), alias_facts(now)
    audit.append(session, caller, "alias.canary", alias_subject(alias.alias), before=facts[0], after=facts[1], why=why, undo_of=undo_of)
    return now


def _end(host: ModelHost, name: AliasName, canary: AdapterId, why: str, session: Session) -> AliasRecord | None:
    """Unless somebody has changed the alias meanwhile."""
    alias = aliases.get(session, name)
    if alias is None or alias.canary != canary:
        return None
    return without_canary(session, alias, host.catalog.records[alias.version], caller=SYSTEM, why=why)


def _follow(host: ModelHost, now: AliasRecord | None) -> None:
    """Memory, rows and events; the registry's thread."""
    if now is None:
        return
    before = host.catalog.aliases.get(now.alias)
    host.catalog.put_alias(now)
    host.post(lambda: _point(host, before, now))
    event = AliasMoved(at_unix=time.time(), by=SYSTEM.name, alias=now.name, tenant=now.tenant, before=now.adapter, after=now.adapter)
    host.publisher.record_event(event)


def _point(host: ModelHost, before: AliasRecord | None, now: AliasRecord) -> None:
    if host.catalog.aliases.get(now.alias) is now:
        host.lifecycle.point(before, now)
