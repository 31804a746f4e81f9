"""Who asks for something, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.errors import Forbidden
from engine.ids import DEFAULT_TENANT, TenantId

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")
"""Each may do what those before it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An identity that was proven, with its rights. ``name`` goes into the audit log."""

    name: str
    kind: Literal["system", "local", "user", "key"]
    role: Role | None
    """None: may call models and see its own usage, nothing else."""
    tenant: TenantId | None
    """What it is confined to; None is all tenants."""
    key: str | None = None
    """Public id of the API key it came with."""
    request: str | None = None
    """Id of the HTTP request that this call is part of."""

    @property
    def home(self) -> TenantId:
        """The tenant its requests are charged to."""
        return DEFAULT_TENANT if self.tenant is None else self.tenant

    def may(self, role: Role) -> bool:
        """Whether it has at least this role."""
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, tenant: TenantId) -> bool:
        """Whether what belongs to ``tenant`` is shown to it."""
        return self.tenant is None or self.tenant == tenant

    def need_for(self, tenant: TenantId, role: Role) -> None:
        """Raise Forbidden below ``role`` or where ``tenant`` is not its own, in the same words whether or not there is such a tenant."""
        self.need(role)
        if not self.sees(tenant):
            message = "This needs a role for that tenant."
            raise Forbidden(message, param="tenant", expected=self.tenant, found=tenant)

    def need(self, role: Role, *, everywhere: bool = False) -> None:
        """Raise Forbidden below ``role``; with ``everywhere`` also when it is confined to one tenant."""
        if not self.may(role) or (everywhere and self.tenant is not None):
            scope = " for all tenants" if everywhere else ""
            message = f"This needs the role {role}{scope}."
            raise Forbidden(message, expected=role, found=self.role)


SYSTEM = Caller(name="loradeck", kind="system", role="admin", tenant=None)
"""Loradeck itself: schedules, policies, demo set-up."""
LOCAL = Caller(name="local", kind="local", role="admin", tenant=None)
"""Anybody on this machine while no admin account exists and only loopback is listened on."""
