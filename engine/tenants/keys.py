"""API keys: made, limited, rotated with an overlap, revoked. The secret is shown once and never stored. Any thread."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from engine.accounts import KeyRecord
from engine.allowance import UNLIMITED, Allowance
from engine.audit_record import Subject
from engine.caller import SYSTEM, Caller, Role
from engine.errors import Conflict, InvalidRequest
from engine.gateway.keys import new_key
from engine.registry import allowances, audit, keys
from engine.tenants.directory import is_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlmodel import Session

    from engine.ids import TenantId
    from engine.tenants.directory import Directory

MOST_OVERLAP_S = 30 * 86400.0
MOST_MODELS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    """A key at the only moment when its secret is known."""

    record: KeyRecord
    token: str


class Keys:
    """``limit`` is called when limits changed."""

    def __init__(self, directory: Directory, limit: Callable[[], None]) -> None:
        self._directory = directory
        self._limit = limit

    def list(self, *, caller: Caller = SYSTEM) -> list[KeyRecord]:
        """Those within the caller's scope, revoked ones included."""
        caller.need("viewer")
        return [key for key in tuple(self._directory.keys.values()) if is_within(key.tenant, caller)]

    def create(
        self,
        name: str,
        *,
        tenant: TenantId | None,
        role: Role | None = None,
        models: tuple[str, ...] | None = None,
        expires_unix: float | None = None,
        caller: Caller = SYSTEM,
    ) -> ShownKey:
        """A new key; None as ``tenant`` is all tenants. Raises Forbidden, NotFound or InvalidRequest."""
        self._need(caller, tenant)
        _check(expires_unix, models)
        made = new_key()
        record = KeyRecord(
            id=made.id,
            tenant=tenant,
            name=name[:200],
            role=role,
            models=models,
            created_unix=time.time(),
            created_by=caller.name,
            expires_unix=expires_unix,
        )
        self._store(record, made.secret_hash, "key.create", caller)
        return ShownKey(record=record, token=made.token)

    def rotate(self, key: str, *, overlap_s: float = 0.0, caller: Caller = SYSTEM) -> ShownKey:
        """A successor with the same rights and limits; the old one ends after the overlap. Raises Conflict for one that has ended."""
        caller.need("admin")
        old = self._directory.key(key, caller)
        self._need(caller, old.tenant)
        _check_holds(old)
        if not 0 <= overlap_s <= MOST_OVERLAP_S:
            message = f"The overlap is 0 to {MOST_OVERLAP_S:.0f} seconds."
            raise InvalidRequest(message, param="overlap_s", expected=f"0 to {MOST_OVERLAP_S:.0f}", found=overlap_s)
        made, now_unix = new_key(), time.time()
        fresh = replace(old, id=made.id, created_unix=now_unix, created_by=caller.name, replaces=old.id, used_unix=None)
        self._store(fresh, made.secret_hash, "key.rotate", caller, old_ends_unix=now_unix + overlap_s)
        return ShownKey(record=fresh, token=made.token)

    def revoke(self, key: str, *, why: str = "", caller: Caller = SYSTEM) -> KeyRecord:
        """It holds no more, from now on; what it started ends by itself."""
        caller.need("admin")
        self._need(caller, self._directory.key(key, caller).tenant)

        def work(session: Session) -> KeyRecord:
            before = keys.get(session, key)
            after = replace(before, revoked_unix=before.revoked_unix or time.time())
            keys.update(session, after)
            audit.append(session, caller, "key.revoke", _subject(after), before=_facts(before), after=_facts(after), why=why)
            return after

        return self._directory.store.write(work, then=self._directory.put_key)

    def allows(self, key: str | None, model: str) -> bool:
        """Whether the key's allow-list, if it has one, names the model."""
        record = None if key is None else self._directory.keys.get(key)
        return record is None or record.models is None or model in record.models

    def limits(self, key: str, *, caller: Caller = SYSTEM) -> Allowance:
        """Of one key."""
        caller.need("viewer")
        return self._directory.key_limits.get(self._directory.key(key, caller).id, UNLIMITED)

    def set_limits(
        self, key: str, allowance: Allowance, *, why: str = "", caller: Caller = SYSTEM, undo_of: int | None = None
    ) -> Allowance:
        """From the next request on; the tenant's limits hold as well."""
        caller.need("admin")
        record = self._directory.key(key, caller)
        self._need(caller, record.tenant)
        before = self._directory.key_limits.get(key, UNLIMITED)

        def work(session: Session) -> None:
            allowances.put(session, "key", key, allowance)
            audit.append(
                session, caller, "limits.set", _subject(record), before=asdict(before), after=asdict(allowance), why=why, undo_of=undo_of
            )

        self._directory.store.write(work, then=lambda _: self._set_limits(key, allowance))
        return allowance

    def forget_of(self, tenant: TenantId) -> None:
        """Memory follows the end of a tenant. The registry's thread."""
        for key in [key.id for key in self._directory.keys.values() if key.tenant == tenant]:
            del self._directory.keys[key]

    def _set_limits(self, key: str, allowance: Allowance) -> None:
        self._directory.key_limits[key] = allowance
        self._limit()

    def _store(self, record: KeyRecord, secret_hash: str, action: str, caller: Caller, *, old_ends_unix: float | None = None) -> None:
        """A new key, and the end of the one that it replaces, in one transaction. Raises Conflict where that has ended meanwhile."""
        inherited = self._directory.key_limits.get(record.replaces or "")

        def work(session: Session) -> KeyRecord | None:
            ends = None if old_ends_unix is None else _ended(keys.get(session, record.replaces or ""), old_ends_unix)
            keys.add(session, record, secret_hash)
            if inherited is not None:
                allowances.put(session, "key", record.id, inherited)
            if ends is not None:
                keys.update(session, ends)
            audit.append(session, caller, action, _subject(record), before=None if ends is None else _facts(ends), after=_facts(record))
            return ends

        def then(ends: KeyRecord | None) -> None:
            self._directory.put_key(record)
            self._directory.ring.put(record.id, secret_hash)
            if inherited is not None:
                self._set_limits(record.id, inherited)
            if ends is not None:
                self._directory.put_key(ends)

        self._directory.store.write(work, then=then)

    def _need(self, caller: Caller, tenant: TenantId | None) -> None:
        if tenant is None:
            caller.need("admin", everywhere=True)
        else:
            caller.need_for(tenant, "admin")
            self._directory.tenant(tenant, caller)


def _check(expires_unix: float | None, models: tuple[str, ...] | None) -> None:
    if expires_unix is not None and expires_unix <= time.time():
        message = "The key would have ended already."
        raise InvalidRequest(message, param="expires_unix", expected="a later time", found=expires_unix)
    if models is not None and not 0 < len(models) <= MOST_MODELS:
        message = f"An allow-list has 1 to {MOST_MODELS} names; leave it out to allow all."
        raise InvalidRequest(message, param="models", found=len(models))


def _check_holds(key: KeyRecord) -> None:
    if not key.holds(time.time()):
        message = f"The key {key.id!r} has ended; make a new one."
        raise Conflict(message, code="key_ended", param="key", found=key.id)


def _ended(key: KeyRecord, ends_unix: float) -> KeyRecord:
    """As it will be, and no longer than it would have been."""
    _check_holds(key)
    return replace(key, expires_unix=ends_unix if key.expires_unix is None else min(key.expires_unix, ends_unix))


def _subject(key: KeyRecord) -> Subject:
    return Subject("key", key.id, key.tenant)


def _facts(key: KeyRecord) -> dict[str, object]:
    facts = {name: getattr(key, name) for name in ("name", "role", "expires_unix", "revoked_unix", "replaces")}
    return {**facts, "models": None if key.models is None else list(key.models)}
