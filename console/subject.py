"""What the drawer is about: an adapter that serves, or a version that the registry keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine import AdapterRow, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``ref`` names its line to the registry; ``number`` is 0 where the row has it."""

    tenant: TenantId
    ref: str
    name: str
    aliases: tuple[str, ...] = ()
    number: int = 0
    row: AdapterRow | None = None
