"""How changes of names, versions, pins, schedules and thresholds are taken back."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.alias import AliasName
from engine.control import ControlCall
from engine.desired import Schedule
from engine.errors import Conflict
from engine.ids import TenantId
from engine.names import check_alias
from engine.registry.alias_words import alias_facts
from engine.report import Thresholds
from engine.versions.facts import title
from engine.versions.moves import Change
from engine.versions.names import servable
from engine.versions.placements import pin_of
from engine.versions.schedules import schedule_facts
from engine.versions.undo import alias_of, moved_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.alias import AliasRecord, MoveKind
    from engine.audit_record import AuditRecord
    from engine.caller import Caller
    from engine.desired import Pin
    from engine.version import VersionRecord
    from engine.versions.schedules import Schedules
    from engine.versions.service import Versions

UNDO_TIMEOUT_S = 90.0
GONE = ("retired", "archived")


class WaysBack:
    """Each method is one action's way back; ``teach`` hands them to the audit log.

    Of several steps the last names the line that it takes back: an undo that fails before it can be tried again.
    """

    def __init__(self, versions: Versions, schedules: Schedules) -> None:
        self._versions = versions
        self._schedules = schedules
        self._catalog = versions.host.catalog
        audit = versions.audit
        for action in ("alias.move", "alias.rollback", "alias.promote", "alias.canary", "alias.create", "adapter.register"):
            audit.teach(action, self.alias)
        audit.teach("alias.drop", self.drop)
        audit.teach("version.retire", self.retire)
        audit.teach("version.restore", self.restore)
        audit.teach("version.pin", self.pin)
        audit.teach("version.unpin", self.pin)
        audit.teach("schedule.put", self.schedule)
        audit.teach("schedule.drop", self.schedule)
        audit.teach("gate.set", self.gate)
        for action in ("adapter.reject", "version.reject"):
            audit.forbid(action, "nothing that serves was changed; register the adapter again once it is put right")
        audit.forbid("archive.delete", "its files are gone; register the adapter from its source")
        audit.forbid("version.archive", "restore the version instead")
        for verb in ("warm", "evict"):
            audit.forbid(f"version.{verb}", "it moved weights and changed nothing that is kept; move them again")

    def alias(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """Back to the version and the canary that it had."""
        name, before = alias_of(line), line.before
        current = self._catalog.aliases.get(name)
        if current is None or not _leads_as(current, line.after or {}):
            raise moved_on(name.name, _told(line.after), _told(alias_facts(current)))
        if before is None:
            self._versions.drop(name.name, tenant=name.tenant, why=why, caller=caller, undo_of=line.key)
            return
        kind: MoveKind = "canary" if line.action == "alias.canary" else "rollback"
        self._lead(name, before, kind=kind, why=why, caller=caller, undo_of=line.key)

    def drop(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """The name again, at its version and with its canary, which are ready again with those that retired with it."""
        name, before, retired = alias_of(line), line.before, (line.after or {}).get("retired", [])
        current = self._catalog.aliases.get(name)
        if current is not None or before is None:
            raise moved_on(name.name, None, None if current is None else current.adapter)
        if before.get("canary_version") not in retired:
            self._canary(before)
        for key in retired:
            record = self._must(key)
            if record.state in GONE:
                self._versions.retirement.restore(title(record), tenant=record.tenant, why=why, caller=caller)
        self._lead(name, before, kind="move", why=why, caller=caller, undo_of=line.key)

    def retire(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """Ready again, and its names lead to it, with their canaries, where nobody has taken them; a failed undo's steps stay done."""
        tenant, before, versions = TenantId(line.tenant or ""), line.before or {}, self._versions
        record = versions.find.version(line.object, tenant)
        told: dict[str, Any] = {"tenant": tenant, "why": why, "caller": caller}
        steps: list[Callable[..., object]] = []
        if record.state in GONE:
            steps.append(partial(versions.retirement.restore, line.object, **told))
        for name in (AliasName(tenant, alias) for alias in before.get("aliases", [])):
            if name not in self._catalog.aliases:
                facts = {"version": record.key, **before.get("splits", {}).get(name.name, {})}
                self._canary(facts)
                steps.append(partial(self._lead, name, facts, kind="create", why=why, caller=caller))
        for alias, share in before.get("canaries", {}).items():
            current = self._catalog.aliases.get(AliasName(tenant, alias))
            if current is not None and current.canary is None and current.version != record.key:
                steps.append(partial(versions.names.canary, alias, record.id, share, **told))
        if not steps:
            raise moved_on(line.object, (line.after or {}).get("state"), record.state)
        for step in steps[:-1]:
            step()
        steps[-1](undo_of=line.key)

    def restore(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """Retired again, unless a name leads to it meanwhile."""
        tenant = TenantId(line.tenant or "")
        preview = self._versions.retirement.retire(line.object, tenant=tenant, preview=True, caller=caller)
        if preview.aliases:
            raise moved_on(line.object, [], list(preview.aliases))
        self._versions.retirement.retire(line.object, tenant=tenant, why=why, caller=caller, undo_of=line.key)

    def pin(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """The pin that was, or none."""
        before, after = line.before or {}, line.after or {}
        adapter, pin = self._versions.find.version(line.object, TenantId(line.tenant or "")).id, pin_of(before)
        entry = self._versions.host.residency.entries.get(adapter)
        now = None if entry is None else entry.pin
        if entry is None or not _same(now, after.get("pin")):
            raise moved_on(line.object, after.get("pin"), None if now is None else now.tier)
        if pin is not None and pin.until_unix is not None and pin.until_unix <= time.time():
            message = "The pin before has run out meanwhile."
            raise Conflict(message, code="moved_on", param="id", found=pin.until_unix)
        call = ControlCall(
            verb="unpin" if pin is None else "pin",
            adapter=adapter,
            tier=None if pin is None else pin.tier,
            until_unix=None if pin is None else pin.until_unix,
            reason=why if pin is None else pin.reason,
            by=caller.name,
            tenant=caller.tenant,
        )
        self._versions.placements.run(call, caller=caller, undo_of=line.key).result(timeout=UNDO_TIMEOUT_S)

    def schedule(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """As it was, or gone."""
        before, after = line.before, line.after
        key = (after or before or {})["key"]
        current = self._schedules.get(key)
        found = None if current is None else schedule_facts(current)
        if found != after:
            raise moved_on(line.object, after, found)
        if before is None:
            self._schedules.drop(key, why=why, caller=caller, undo_of=line.key)
            return
        stored = Schedule(**{**before, "days": tuple(before["days"]), "ran_unix": None})
        self._schedules.put(stored, before=current, why=why, caller=caller, undo_of=line.key)

    def gate(self, line: AuditRecord, why: str, caller: Caller) -> None:
        """The thresholds before."""
        tenant = None if line.tenant is None else TenantId(line.tenant)
        thresholds = self._versions.thresholds
        found, is_other_base = thresholds.own(tenant), tenant is None and line.object != thresholds.base
        if is_other_base or found != _thresholds(line.after):
            raise moved_on(line.object, line.after, None if found is None else asdict(found))
        thresholds.set(_thresholds(line.before), tenant=tenant, why=why, caller=caller, undo_of=line.key)

    def _lead(
        self, name: AliasName, facts: dict[str, Any], *, kind: MoveKind, why: str, caller: Caller, undo_of: int | None = None
    ) -> None:
        """A name leads where the log says that it led. Raises Conflict."""
        host = self._versions.host
        check_alias(name.name, reserved=(host.base_name,))
        canary, share = self._canary(facts)
        version = servable(self._must(facts["version"]), host)
        change = Change(name=name, version=version, kind=kind, action="alias.move", canary=canary, share=share, why=why, undo_of=undo_of)
        self._versions.moves.apply(change, caller=caller)

    def _canary(self, facts: dict[str, Any]) -> tuple[VersionRecord | None, float]:
        """What got a share of a name's requests, and the share. Raises Conflict where it cannot serve now."""
        key = facts.get("canary_version")
        return (None, 0.0) if key is None else (servable(self._must(key), self._versions.host), facts["canary_share"])

    def _must(self, key: int) -> VersionRecord:
        record = self._catalog.records.get(key)
        if record is None:
            message = "The version before is gone."
            raise Conflict(message, code="moved_on", param="id")
        return record


def _told(facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where a name leads, as people may read it."""
    return None if facts is None else {name: facts.get(name) for name in ("adapter", "canary", "canary_share")}


def _leads_as(alias: AliasRecord, after: dict[str, Any]) -> bool:
    """Whether a name leads where the log says that it was led, canary included."""
    facts = alias_facts(alias) or {}
    return all(facts[name] == after.get(name) for name in ("version", "canary_version", "canary_share"))


def _thresholds(facts: dict[str, Any] | None) -> Thresholds | None:
    return None if facts is None else Thresholds(**facts)


def _same(pin: Pin | None, facts: dict[str, Any] | None) -> bool:
    if pin is None or facts is None:
        return pin is None and facts is None
    return (pin.tier, pin.until_unix, pin.reason) == (facts["tier"], facts["until_unix"], facts["reason"])
