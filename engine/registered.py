"""What somebody asks to be registered, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.alias import AliasName
    from engine.ids import Tier
    from engine.report import Check, GateReport, Scores
    from engine.snapshot import AdapterRow
    from engine.version import VersionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What registration found out."""

    matched: int
    """Modules of the base that the adapter changes."""
    modules: tuple[str, ...]
    rank: int
    bytes: int
    pages: int
    warnings: tuple[str, ...]
    base_proof: Literal["recorded", "declared"]
    probe: Literal["unproven", "ok"]
    checks: tuple[Check, ...] = ()
    """What the gate looked at, in order."""
    scores: Scores | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The answer to a registration. ``created`` is False when the alias already named this very version."""

    row: AdapterRow
    report: ValidationReport
    created: bool
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterCall:
    """What somebody asks to be registered. ``replace`` moves the name where it leads to another version."""

    source: str
    alias: AliasName
    dry_run: bool = False
    replace: bool = False
    compatible_base: bool = False
    prove: Literal["now", "first_load"] = "now"
    warm: Tier = "disk"
    """Where it has to be before the name leads to it; nearer where the version before is nearer."""
    why: str = ""


def report_of(record: VersionRecord, gate: GateReport, scores: Scores | None) -> ValidationReport:
    """Both together."""
    return ValidationReport(
        matched=record.num_matched,
        modules=record.modules,
        rank=record.rank,
        bytes=record.bytes,
        pages=record.num_pages,
        warnings=record.warnings,
        base_proof=record.base_proof,
        probe="ok" if record.fingerprint else "unproven",
        checks=gate.checks,
        scores=scores,
    )
