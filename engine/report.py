"""What a version was checked for before it may serve, and what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckName = Literal["schema", "base", "numbers", "effect", "score", "replaced_score"]
CHECKS: tuple[CheckName, ...] = ("schema", "base", "numbers", "effect", "score", "replaced_score")
"""In the order in which they are made."""
Verdict = Literal["passed", "warned", "failed", "pending", "not_reached", "not_asked"]
"""``pending``: made at the first load. ``not_reached``: an earlier check failed. ``not_asked``: no threshold or nothing to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What an adapter's training record says of it: shares of right answers, 0 to 1."""

    adapter: float
    base: float | None = None
    metric: str = ""
    rows: int | None = None
    """Held-out chats it was measured on."""
    rows_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What scores must be at least. ``min_score`` None asks for none; with one, a version without a score fails."""

    min_score: float | None = None
    max_drop: float = 0.02
    """How much lower than the version it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: CheckName
    verdict: Verdict
    expected: str = ""
    found: str = ""
    code: str = ""
    """Of the refusal, where it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """Every check of one version, in order."""

    checks: tuple[Check, ...]
    judged_unix: float

    @property
    def failed(self) -> Check | None:
        """The check that keeps it from serving; None when it may."""
        return next((check for check in self.checks if check.verdict == "failed"), None)

    @property
    def is_pending(self) -> bool:
        """Whether a check is still to be made, at the first load."""
        return any(check.verdict == "pending" for check in self.checks)
