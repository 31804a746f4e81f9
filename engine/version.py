"""A version of an adapter: what was registered, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.ids import AdapterId, TenantId

VersionState = Literal["registered", "validating", "ready", "rejected", "retired", "archived"]
"""The stored lifecycle; only ``ready`` is ever routed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """One version of one tenant's adapter. Its id is that of the tenant's weights: who else registers the same has another.

    ``bytes`` is whole pages. ``key``, ``line`` and ``number`` are given when it is stored.
    """

    id: AdapterId
    digest: str
    tenant: TenantId
    source: str
    base_digest: str
    rank: int
    modules: tuple[str, ...]
    num_matched: int
    num_pages: int
    bytes: int
    base_proof: Literal["recorded", "declared"]
    registered_unix: float
    warnings: tuple[str, ...] = ()
    synthetic: bool = False
    no_effect_expected: bool = False
    """The file itself says that it changes nothing (alpha 0, or B all zero): the probe then only warns."""
    fingerprint: tuple[float, ...] = ()
    """The probe's answer at registration; empty until it ran."""
    key: int = 0
    """Row in the registry; 0 before it is stored."""
    line: str = ""
    """Name of the adapter that it is a version of."""
    number: int = 0
    """1, 2, 3 … within the line."""
    state: VersionState = "registered"
