"""What was served."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Index
from sqlmodel import Field

from engine.registry.tables.metadata import BIG, Row


class RequestTable(Row, table=True):
    """A request that ended: figures, never text."""

    __tablename__: ClassVar[str] = "request_record"
    __table_args__ = (Index(None, "tenant", "ended_unix"),)

    key: int | None = Field(default=None, primary_key=True, sa_type=BIG)
    request: str = Field(index=True)
    tenant: str
    api_key: str | None = None
    model: str
    content: str | None = Field(default=None, index=True)
    ended_unix: float = Field(index=True)
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    tier: str | None = None
    """Where its adapter was when it came."""
    queue_s: float | None = None
    load_s: float | None = None
    ttft_s: float | None = None
    total_s: float


class LoadTable(Row, table=True):
    """An adapter's way to a nearer tier."""

    __tablename__: ClassVar[str] = "load_record"
    __table_args__ = (Index(None, "content", "at_unix"),)

    key: int | None = Field(default=None, primary_key=True)
    content: str
    tenant: str
    at_unix: float = Field(index=True)
    from_tier: str
    to_tier: str
    total_s: float
    phases: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    evicted: list[str] = Field(default_factory=list, sa_type=JSON)
    num_waiters: int
    others_delay_s: float


class UsageTable(Row, table=True):
    """What a tenant used with one key of one adapter on one day, UTC."""

    __tablename__: ClassVar[str] = "usage_day"

    day: str = Field(primary_key=True)
    """2026-11-30."""
    tenant: str = Field(primary_key=True)
    api_key: str = Field(primary_key=True)
    """Empty without a key."""
    content: str = Field(primary_key=True)
    """Empty is the base."""
    requests: int = Field(default=0, sa_type=BIG)
    prompt_tokens: int = Field(default=0, sa_type=BIG)
    cached_tokens: int = Field(default=0, sa_type=BIG)
    output_tokens: int = Field(default=0, sa_type=BIG)
    device_s: float = 0.0
    cold_starts: int = Field(default=0, sa_type=BIG)
    errors: int = Field(default=0, sa_type=BIG)
