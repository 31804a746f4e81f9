"""Tenants, people and API keys as they are stored, and what was used."""

from __future__ import annotations

from dataclasses import dataclass

from engine.caller import Caller, Role
from engine.ids import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRecord:
    """An owner of adapters and keys. A suspended one's keys call nothing."""

    id: TenantId
    name: str
    created_unix: float
    suspended_unix: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A person who signs in. ``tenant`` None is all tenants."""

    name: str
    role: Role
    tenant: TenantId | None
    created_unix: float
    disabled_unix: float | None = None
    signed_in_unix: float | None = None

    def caller(self, request: str | None = None) -> Caller:
        """The rights of whoever has proven to be this person."""
        return Caller(name=self.name, kind="user", role=self.role, tenant=self.tenant, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An API key without its secret. ``id`` is public; ``role`` None may call models and nothing else."""

    id: str
    tenant: TenantId | None
    name: str
    role: Role | None
    models: tuple[str, ...] | None
    """Names that it may call; None is all that its tenant may."""
    created_unix: float
    created_by: str
    expires_unix: float | None = None
    revoked_unix: float | None = None
    replaces: str | None = None
    used_unix: float | None = None

    def holds(self, now_unix: float) -> bool:
        """Whether it may still be used."""
        return self.revoked_unix is None and (self.expires_unix is None or now_unix < self.expires_unix)

    def caller(self, request: str | None = None) -> Caller:
        """The rights of whoever has shown its secret."""
        return Caller(name=f"key {self.id}", kind="key", role=self.role, tenant=self.tenant, key=self.id, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What a tenant used with one key of one adapter on one day, UTC."""

    day: str
    tenant: TenantId
    key: str
    """Empty without one."""
    adapter: str
    """Empty is the base."""
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    cold_starts: int
    errors: int
