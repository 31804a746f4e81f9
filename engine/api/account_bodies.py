"""The bodies of tenants, users, keys and limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.allowance import Allowance
from engine.api.schemas import LATEST_UNIX, StrictBody
from engine.caller import Role

Name = Annotated[str, Field(min_length=1, max_length=200)]
Why = Annotated[str, Field(max_length=500)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
SmallCount = Annotated[int, Field(ge=0, lt=2**31)]


class SignInBody(StrictBody):
    """``POST /api/session``."""

    name: Name
    password: Annotated[str, Field(max_length=1000)]


class TenantBody(StrictBody):
    """``POST /api/tenants``."""

    id: Name
    name: str = ""


class TenantChangeBody(StrictBody):
    """``PATCH /api/tenants/{id}``."""

    name: Name | None = None
    suspended: bool | None = None
    why: Why = ""


class UserBody(StrictBody):
    """``POST /api/users``. Without a tenant the role is for all of them."""

    name: Name
    password: Annotated[str, Field(max_length=1000)]
    role: Role
    tenant: Name | None = None


class UserChangeBody(StrictBody):
    """``PATCH /api/users/{name}``. A role comes with its scope: without a tenant it is for all of them."""

    role: Role | None = None
    tenant: Name | None = None
    disabled: bool | None = None
    password: Annotated[str, Field(max_length=1000)] | None = None


class KeyBody(StrictBody):
    """``POST /api/keys``. Without a tenant it is its maker's; ``models`` None allows all that the tenant may call."""

    name: str = Field("", max_length=200)
    tenant: Name | None = None
    all_tenants: bool = False
    role: Role | None = None
    models: list[Name] | None = Field(None, max_length=1000)
    expires_unix: float | None = Field(None, le=LATEST_UNIX)


class RotateBody(StrictBody):
    """``POST /api/keys/{id}/rotate``."""

    overlap_s: float = 0.0


class RevokeBody(StrictBody):
    """``POST /api/keys/{id}/revoke``."""

    why: Why = ""


class LimitsBody(StrictBody):
    """``PUT …/limits``: what is left out has no limit."""

    weight: float = Field(1.0, gt=0, le=1000)
    requests_per_minute: SmallCount | None = None
    tokens_per_minute: SmallCount | None = None
    max_running: SmallCount | None = None
    max_waiting: SmallCount | None = None
    max_kv_pages: SmallCount | None = None
    max_adapter_pages: SmallCount | None = None
    max_tokens: SmallCount | None = None
    monthly_tokens: Count | None = None
    why: Why = ""

    def allowance(self) -> Allowance:
        """The limits alone."""
        return Allowance(**self.model_dump(exclude={"why"}))
