"""Who changed what."""

from typing import ClassVar

from sqlalchemy import Index
from sqlmodel import Field

from engine.registry.tables.metadata import Row


class AuditTable(Row, table=True):
    """One change. Rows are only ever added: triggers refuse the rest, and each carries the hash of the one before."""

    __tablename__: ClassVar[str] = "audit"
    __table_args__ = (Index(None, "object_kind", "object", "key"), Index(None, "tenant", "key"), Index(None, "by", "key"))

    key: int | None = Field(default=None, primary_key=True)
    at_unix: float = Field(index=True)
    by: str
    by_kind: str
    tenant: str | None = None
    """Whose it is; none is everyone's."""
    action: str
    object_kind: str
    object: str
    before: str | None = None
    """JSON text."""
    after: str | None = None
    """JSON text."""
    why: str = ""
    request: str | None = None
    undo_of: int | None = Field(default=None, index=True)
    """Of each line of an undo that takes several changes."""
    previous: str
    hash: str
