"""Bases, adapters, their versions, and the aliases that name them."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Index, UniqueConstraint
from sqlmodel import Field

from engine.registry.tables.metadata import BIG, Row


class BaseTable(Row, table=True):
    """A base that was served or added, by digest of its weights."""

    __tablename__: ClassVar[str] = "base"

    digest: str = Field(primary_key=True)
    name: str
    source: str
    family: str
    added_unix: float
    added_by: str
    gate: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """Thresholds of evaluation scores."""
    compatible: list[str] = Field(default_factory=list, sa_type=JSON)
    """Digests of bases whose adapters an operator declared to fit."""


class AdapterTable(Row, table=True):
    """A named line of versions of one tenant."""

    __tablename__: ClassVar[str] = "adapter"
    __table_args__ = (UniqueConstraint("tenant", "name"),)

    key: int | None = Field(default=None, primary_key=True)
    tenant: str = Field(foreign_key="tenant.id")
    name: str
    description: str = ""
    created_unix: float
    created_by: str


class VersionTable(Row, table=True):
    """One version of a line. ``content`` names its weights; a rejected one may have none. Line and tenant are repeated for listing."""

    __tablename__: ClassVar[str] = "version"
    __table_args__ = (
        UniqueConstraint("adapter", "number"),
        UniqueConstraint("adapter", "content"),
        Index(None, "tenant", "line", "number"),
        Index(None, "line", "number"),
        Index(None, "state", "tenant", "line"),
        Index(None, "base_digest", "state"),
    )

    key: int | None = Field(default=None, primary_key=True)
    adapter: int = Field(foreign_key="adapter.key")
    tenant: str
    line: str
    number: int
    content: str | None = Field(default=None, index=True)
    state: str
    state_unix: float
    digest: str
    source: str
    base_digest: str
    base_proof: str
    rank: int
    modules: list[str] = Field(sa_type=JSON)
    num_matched: int
    num_pages: int
    bytes: int = Field(sa_type=BIG)
    registered_unix: float = Field(index=True)
    registered_by: str
    warnings: list[str] = Field(default_factory=list, sa_type=JSON)
    synthetic: bool = False
    no_effect_expected: bool = False
    fingerprint: list[float] = Field(default_factory=list, sa_type=JSON)
    report: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """What the gate found, check by check."""
    scores: dict[str, float] = Field(default_factory=dict, sa_type=JSON)
    note: str = ""
    archive: str | None = None
    """Digest of its archive."""


class AliasTable(Row, table=True):
    """A movable name; a share of its requests may go to a canary."""

    __tablename__: ClassVar[str] = "alias"
    __table_args__ = (UniqueConstraint("tenant", "name"),)

    key: int | None = Field(default=None, primary_key=True)
    tenant: str = Field(foreign_key="tenant.id")
    name: str
    version: int = Field(foreign_key="version.key", index=True)
    canary: int | None = Field(default=None, foreign_key="version.key", index=True)
    canary_share: float = 0.0
    moved_unix: float
    moved_by: str


class AliasMoveTable(Row, table=True):
    """An alias's history; it outlasts the alias."""

    __tablename__: ClassVar[str] = "alias_move"
    __table_args__ = (Index(None, "tenant", "name", "key"),)

    key: int | None = Field(default=None, primary_key=True)
    tenant: str
    name: str
    kind: str
    before: int | None = None
    after: int | None = None
    share: float = 0.0
    at_unix: float
    by: str
    why: str = ""
