"""A name that tenants call, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.ids import AdapterId, TenantId

MoveKind = Literal["create", "move", "rollback", "canary", "drop"]


class AliasName(NamedTuple):
    """Names are unique within a tenant."""

    tenant: TenantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRecord:
    """An alias as it stands: whoever calls it gets ``adapter``, or for a share of requests the canary."""

    tenant: TenantId
    name: str
    adapter: AdapterId
    version: int
    """Key of the version."""
    moved_unix: float
    canary: AdapterId | None = None
    canary_version: int | None = None
    canary_share: float = 0.0
    """0 to 1."""

    @property
    def alias(self) -> AliasName:
        """Its name within the registry."""
        return AliasName(self.tenant, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasMove:
    """One line of an alias's history. Versions are keys; None is no version."""

    number: int
    """Of the alias's own moves, from 1."""
    tenant: TenantId
    name: str
    kind: MoveKind
    before: int | None
    after: int | None
    share: float
    """Of the canary after it."""
    at_unix: float
    by: str
    why: str
