"""Tenants, people and keys in memory: read without a lock, changed one by one after each commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.allowance import UNLIMITED
from engine.errors import NotFound
from engine.gateway.keys import KeyRing
from engine.ids import TenantId
from engine.registry import allowances, keys, tenants, users

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.accounts import KeyRecord, TenantRecord, UserRecord
    from engine.allowance import Allowance
    from engine.caller import Caller
    from engine.registry.store import Store


class Directory:
    """Any thread reads; the registry's thread changes it. Each entry is frozen and replaced whole."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tenants: dict[TenantId, TenantRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.password_hashes: dict[str, str] = {}
        self.keys: dict[str, KeyRecord] = {}
        self.ring = KeyRing()
        self.tenant_limits: dict[TenantId, Allowance] = {}
        self.key_limits: dict[str, Allowance] = {}
        store.read(self._load)

    @property
    def has_admin(self) -> bool:
        """Whether there is an account that may do everything."""
        return any(is_chief(user) for user in tuple(self.users.values()))

    def limits_of(self, tenant: TenantId) -> Allowance:
        """What one tenant may have."""
        return self.tenant_limits.get(tenant, UNLIMITED)

    def learn_tenants(self) -> None:
        """Know those that came with a registration. Any thread but the engine's."""
        for tenant in self.store.read(tenants.every):
            self.tenants[tenant.id] = tenant

    def tenant(self, tenant: str, caller: Caller) -> TenantRecord:
        """One that the caller sees. Raises NotFound, in the same words for another's and for none."""
        if caller.tenant is None and tenant not in self.tenants:
            self.learn_tenants()
        found = self.tenants.get(TenantId(tenant))
        if found is None or not caller.sees(found.id):
            raise no_tenant(tenant)
        return found

    def user(self, name: str, caller: Caller) -> UserRecord:
        """One within the caller's scope. Raises NotFound."""
        found = self.users.get(name)
        if found is None or not is_within(found.tenant, caller):
            message = f"There is no user {name[:80]!r}."
            raise NotFound(message, param="user", found=name[:80])
        return found

    def key(self, key: str, caller: Caller) -> KeyRecord:
        """One within the caller's scope. Raises NotFound."""
        found = self.keys.get(key)
        if found is None or not is_within(found.tenant, caller):
            message = f"There is no key {key[:80]!r}."
            raise NotFound(message, param="key", found=key[:80])
        return found

    def put_tenant(self, tenant: TenantRecord) -> None:
        """Memory follows a commit."""
        self.tenants[tenant.id] = tenant

    def put_user(self, user: UserRecord) -> None:
        """Memory follows a commit."""
        self.users[user.name] = user

    def put_key(self, key: KeyRecord) -> None:
        """Memory follows a commit."""
        self.keys[key.id] = key

    def seen(self, user: str, at_unix: float) -> None:
        """Memory follows a sign-in."""
        if user in self.users:
            self.users[user] = replace(self.users[user], signed_in_unix=at_unix)

    def used(self, key: str, at_unix: float) -> None:
        """Memory follows the use of a key."""
        if key in self.keys:
            self.keys[key] = replace(self.keys[key], used_unix=at_unix)

    def _load(self, session: Session) -> None:
        self.tenants = {tenant.id: tenant for tenant in tenants.every(session)}
        for user, password_hash in users.every(session):
            self.users[user.name], self.password_hashes[user.name] = user, password_hash
        for key, secret_hash in keys.every(session):
            self.keys[key.id] = key
            self.ring.put(key.id, secret_hash)
        self.tenant_limits = {TenantId(name): limits for name, limits in allowances.every(session, "tenant").items()}
        self.key_limits = allowances.every(session, "key")


def no_tenant(tenant: str) -> NotFound:
    """One refusal for what does not exist and for what the caller does not see."""
    return NotFound(f"There is no tenant {tenant[:80]!r}.", param="tenant", found=tenant[:80])


def is_chief(user: UserRecord) -> bool:
    """Whether this account may do everything, everywhere, now."""
    return user.role == "admin" and user.tenant is None and user.disabled_unix is None


def is_within(tenant: TenantId | None, caller: Caller) -> bool:
    """Whether what is scoped to ``tenant`` (None: to all) lies within the caller's scope."""
    return caller.tenant is None or tenant == caller.tenant
