"""Tenants and how much each may have; what they used. Every change is audited in its transaction and holds at once. Any thread."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.accounts import TenantRecord
from engine.allowance import UNLIMITED, Allowance, Use
from engine.audit_record import Subject
from engine.caller import SYSTEM, Caller
from engine.errors import Conflict, InvalidRequest
from engine.gateway.month import month_name
from engine.gateway.sessions import Sessions
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, TenantId
from engine.registry import allowances, audit, tenants, usage
from engine.tenants.access import Access
from engine.tenants.directory import Directory, no_tenant
from engine.tenants.keys import Keys
from engine.tenants.users import Users

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlmodel import Session

    from engine.accounts import UsageRow
    from engine.clock import Clock
    from engine.gateway.gate import Gate
    from engine.registry.store import Store

    Limit = Callable[[dict[TenantId, Allowance], dict[str, Allowance]], None]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MOST_USAGE_ROWS = 5000
BUILT_IN = (DEFAULT_TENANT, SHARED_TENANT)


class Tenants:
    """``users``, ``keys``, ``sessions`` and ``access`` hang on it."""

    def __init__(
        self,
        store: Store,
        gate: Gate,
        clock: Clock,
        *,
        listens_on_loopback: bool,
        limit: Callable[[dict[TenantId, Allowance], dict[str, Allowance]], None],
    ) -> None:
        self._gate = gate
        self._store = store
        self._on_limits = limit
        self.on_delete: Callable[[TenantId], None] = lambda _tenant: None
        """Hears of a tenant that is gone."""
        self.directory = Directory(store)
        self.sessions = Sessions(clock.now_s)
        self.users = Users(self.directory, self.sessions)
        self.keys = Keys(self.directory, self._limit)
        self.access = Access(self.directory, self.sessions, clock, listens_on_loopback=listens_on_loopback)
        self._limit()
        month = month_name(time.time())
        for_tenants = store.read(lambda session: usage.month(session, month, by_key=False))
        gate.restore_month(for_tenants, store.read(lambda session: usage.month(session, month, by_key=True)))
        store.later(lambda session: usage.forget_old(session, time.time()))

    def visible(self, *, caller: Caller = SYSTEM) -> list[TenantRecord]:
        """Those that the caller sees."""
        caller.need("viewer")
        self.directory.learn_tenants()
        return [tenant for tenant in tuple(self.directory.tenants.values()) if caller.sees(tenant.id)]

    def create(self, tenant: str, *, name: str = "", caller: Caller = SYSTEM) -> TenantRecord:
        """A new one; ``name`` is what people read. Raises InvalidRequest or Conflict."""
        caller.need("admin", everywhere=True)
        if not NAME.fullmatch(tenant):
            message = "A tenant is 1 to 63 small letters, digits, '.', '_' or '-'."
            raise InvalidRequest(message, param="tenant", found=tenant[:80])
        self.directory.learn_tenants()
        if tenant in self.directory.tenants:
            message = f"There is a tenant {tenant!r} already."
            raise Conflict(message, code="tenant_exists", param="tenant", found=tenant)
        record = TenantRecord(id=TenantId(tenant), name=(name or tenant)[:200], created_unix=time.time())

        def work(session: Session) -> None:
            tenants.ensure(session, record.id, by=caller.name)
            tenants.update(session, record)
            audit.append(session, caller, "tenant.create", _subject(record), after=_facts(record))

        self._store.write(work, then=lambda _: self.directory.put_tenant(record))
        return record

    def rename(self, tenant: str, name: str, *, caller: Caller = SYSTEM) -> TenantRecord:
        """Another name for people to read."""
        return self._change(tenant, "tenant.rename", caller, lambda before: replace(before, name=name[:200] or before.id))

    def suspend(self, tenant: str, *, why: str = "", caller: Caller = SYSTEM) -> TenantRecord:
        """Its keys call nothing and its people are signed out until it is resumed; requests that run end by themselves."""
        suspended = self._change(tenant, "tenant.suspend", caller, lambda before: replace(before, suspended_unix=time.time()), why)
        for user in tuple(self.directory.users.values()):
            if user.tenant == suspended.id:
                self.sessions.end_all_of(user.name)
        return suspended

    def resume(self, tenant: str, *, why: str = "", caller: Caller = SYSTEM) -> TenantRecord:
        """Its keys hold again."""
        return self._change(tenant, "tenant.resume", caller, lambda before: replace(before, suspended_unix=None), why)

    def delete(self, tenant: str, *, why: str = "", caller: Caller = SYSTEM) -> None:
        """Forget it with its revoked keys and limits; retired versions, archives, usage and audit log stay, and its id is not given again.

        Raises Conflict, saying what is in the way, while it has anything else.
        """
        caller.need("admin", everywhere=True)
        record = self.directory.tenant(tenant, caller)
        if record.id in BUILT_IN:
            message = f"The tenant {tenant!r} is always there."
            raise Conflict(message, code="built_in", param="tenant")

        def work(session: Session) -> None:
            stands = tenants.stands(session, record.id)
            if stands:
                what = ", ".join(f"{name} ({number})" for name, number in stands.items())
                message = f"The tenant {tenant!r} still has {what}. Retire its versions, revoke its keys, remove the rest; then delete it."
                raise Conflict(message, code="tenant_owns", param="tenant", expected="only what is retired or revoked", found=what)
            tenants.delete(session, record.id, at_unix=time.time())
            allowances.drop(session, "tenant", record.id)
            audit.append(session, caller, "tenant.delete", _subject(record), before=_facts(record), why=why)

        def then(_: None) -> None:
            del self.directory.tenants[record.id]
            self.keys.forget_of(record.id)
            self.directory.tenant_limits.pop(record.id, None)
            self._limit()
            self.on_delete(record.id)

        self._store.write(work, then=then)

    def limits(self, tenant: str, *, caller: Caller = SYSTEM) -> Allowance:
        """Of one tenant."""
        caller.need("viewer")
        return self.directory.tenant_limits.get(self.directory.tenant(tenant, caller).id, UNLIMITED)

    def set_limits(
        self, tenant: str, allowance: Allowance, *, why: str = "", caller: Caller = SYSTEM, undo_of: int | None = None
    ) -> Allowance:
        """From the next request on. A tenant's own admin may not raise what it was given."""
        caller.need("admin", everywhere=True)
        record = self.directory.tenant(tenant, caller)
        before = self.directory.tenant_limits.get(record.id, UNLIMITED)

        def work(session: Session) -> None:
            allowances.put(session, "tenant", record.id, allowance)
            audit.append(
                session, caller, "limits.set", _subject(record), before=asdict(before), after=asdict(allowance), why=why, undo_of=undo_of
            )

        def then(_: None) -> None:
            self.directory.tenant_limits[record.id] = allowance
            self._limit()

        self._store.write(work, then=then)
        return allowance

    def use(self, tenant: str, *, caller: Caller = SYSTEM) -> Use:
        """What counts against its limits now."""
        caller.need("viewer")
        return self._gate.used_by(self.directory.tenant(tenant, caller).id)

    def usage(self, *, first: str, last: str, tenant: str | None = None, caller: Caller = SYSTEM) -> list[UsageRow]:
        """A row a day, key and adapter; a key without a role sees its own tenant's."""
        scope = caller.home if caller.role is None else caller.tenant
        wanted = scope if tenant is None else TenantId(tenant)
        if wanted is not None and scope not in {None, wanted}:
            raise no_tenant(wanted)
        return self._store.read(partial(usage.days, first=first, last=last, tenant=wanted, limit=MOST_USAGE_ROWS))

    def _change(
        self, tenant: str, action: str, caller: Caller, change: Callable[[TenantRecord], TenantRecord], why: str = ""
    ) -> TenantRecord:
        caller.need("admin", everywhere=True)
        known = self.directory.tenant(tenant, caller).id

        def work(session: Session) -> TenantRecord:
            before = tenants.get(session, known)
            after = change(before)
            tenants.update(session, after)
            audit.append(session, caller, action, _subject(after), before=_facts(before), after=_facts(after), why=why)
            return after

        return self._store.write(work, then=self.directory.put_tenant)

    def _limit(self) -> None:
        """Whoever holds to them hears of all limits."""
        tenants, keys = dict(self.directory.tenant_limits), dict(self.directory.key_limits)
        self._on_limits(tenants, keys)


def _subject(tenant: TenantRecord) -> Subject:
    return Subject("tenant", tenant.id, tenant.id)


def _facts(tenant: TenantRecord) -> dict[str, object]:
    return {"name": tenant.name, "suspended_unix": tenant.suspended_unix}
