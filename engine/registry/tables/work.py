"""What operators want: where adapters should be, when, and long work under way."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Index
from sqlmodel import Field

from engine.registry.tables.metadata import Row


class PlacementTable(Row, table=True):
    """A place in the warm set: where weights were, so that they come back there after a restart."""

    __tablename__: ClassVar[str] = "placement"

    content: str = Field(primary_key=True)
    warm_tier: str | None = None
    warm_priority: int = 0
    """The lowest comes back first after a restart."""
    warm_by: str = ""
    warm_unix: float | None = None


class PinTable(Row, table=True):
    """Where somebody wants weights to stay."""

    __tablename__: ClassVar[str] = "pin"

    content: str = Field(primary_key=True)
    tier: str
    until_unix: float | None = None
    reason: str = ""
    by: str = ""
    at_unix: float


class ScheduleTable(Row, table=True):
    """Aliases that are warmed at a time of day."""

    __tablename__: ClassVar[str] = "schedule"

    key: int | None = Field(default=None, primary_key=True)
    tenant: str = Field(foreign_key="tenant.id", index=True)
    alias: str
    trigger: str
    """``time``, ``sign_in`` or ``first_request``."""
    days: list[int] = Field(default_factory=list, sa_type=JSON)
    """0 is Monday."""
    minute: int | None = None
    """Of the day."""
    zone: str = "UTC"
    tier: str = "device"
    enabled: bool = True
    ran_unix: float | None = None
    created_unix: float
    created_by: str


class OperationTable(Row, table=True):
    """Long work that outlasts a restart; its items are its progress."""

    __tablename__: ClassVar[str] = "operation"
    __table_args__ = (Index(None, "state", "created_unix"),)

    id: str = Field(primary_key=True)
    kind: str
    state: str
    tenant: str | None = None
    options: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    total: int = 0
    done: int = 0
    failed: int = 0
    created_unix: float = Field(index=True)
    created_by: str
    started_unix: float | None = None
    ended_unix: float | None = None
    message: str = ""


class ItemTable(Row, table=True):
    """One row of an operation."""

    __tablename__: ClassVar[str] = "operation_item"
    __table_args__ = (Index(None, "operation", "state", "number"),)

    operation: str = Field(primary_key=True, foreign_key="operation.id")
    number: int = Field(primary_key=True)
    state: str
    outcome: str = ""
    """``new``, ``unchanged``, ``updated`` or ``rejected``."""
    data: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    result: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    code: str | None = None
    message: str = ""
    ended_unix: float | None = None
