"""Tenants, people, keys, and how much each may have."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Index
from sqlmodel import Field

from engine.registry.tables.metadata import BIG, Row


class TenantTable(Row, table=True):
    """An owner of adapters and keys."""

    __tablename__: ClassVar[str] = "tenant"

    id: str = Field(primary_key=True)
    name: str
    created_unix: float
    created_by: str
    disabled_unix: float | None = None
    gate: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """Thresholds of evaluation scores."""
    options: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class UserTable(Row, table=True):
    """A person who signs in to the console."""

    __tablename__: ClassVar[str] = "user"

    key: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    role: str
    tenant: str | None = Field(default=None, foreign_key="tenant.id")
    """What they are confined to; none is all tenants."""
    password_hash: str
    created_unix: float
    created_by: str
    disabled_unix: float | None = None
    signed_in_unix: float | None = None


class KeyTable(Row, table=True):
    """An API key; the secret is kept only as a hash. ``id`` is public."""

    __tablename__: ClassVar[str] = "api_key"
    __table_args__ = (Index(None, "tenant", "created_unix"),)

    id: str = Field(primary_key=True)
    tenant: str | None = Field(default=None, foreign_key="tenant.id")
    """None is all tenants."""
    name: str
    secret_hash: str = Field(unique=True)
    role: str | None = None
    """None may call models and nothing else."""
    models: list[str] | None = Field(default=None, sa_type=JSON)
    """Names that it may call; none is all that its tenant may."""
    created_unix: float
    created_by: str
    expires_unix: float | None = None
    revoked_unix: float | None = None
    replaces: str | None = None
    used_unix: float | None = None


class AllowanceTable(Row, table=True):
    """Limits of one tenant or one key, as in ``engine.allowance``. None is no limit."""

    __tablename__: ClassVar[str] = "allowance"

    kind: str = Field(primary_key=True)
    """``tenant`` or ``key``."""
    subject: str = Field(primary_key=True)
    weight: float = 1.0
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_running: int | None = None
    max_waiting: int | None = None
    max_kv_pages: int | None = None
    max_adapter_pages: int | None = None
    max_tokens: int | None = None
    monthly_tokens: int | None = Field(default=None, sa_type=BIG)
