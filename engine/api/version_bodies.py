"""Bodies of ``/api/aliases``, ``/api/schedules``, ``/api/gate`` and of a version's last steps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.api.schemas import StrictBody
from engine.versions.times import WEEKDAYS

MOST_CHARS = 500


class WhyBody(StrictBody):
    """Whose it is, where the caller may see more than one tenant's, and the reason for the log."""

    tenant: str | None = None
    why: str | None = Field(None, max_length=MOST_CHARS)


class MoveBody(WhyBody):
    """``POST /api/aliases/{name}/move``. ``version`` is a number of its line, a version id or ``line@number``."""

    version: str | int
    warm: Literal["device", "host", "disk"] | None = None


class CanaryBody(WhyBody):
    """``POST /api/aliases/{name}/canary``. A share of 0 drops it."""

    version: str | int | None = None
    share: float = Field(ge=0, le=1)


class ScheduleBody(WhyBody):
    """``POST /api/schedules`` and ``PUT /api/schedules/{key}``. ``at`` is ``HH:MM``, with the trigger ``time``."""

    alias: str
    trigger: Literal["time", "sign_in", "first_request"] = "time"
    at: str | None = None
    days: list[str] = Field(default_factory=lambda: list(WEEKDAYS), max_length=7)
    zone: str = "UTC"
    tier: Literal["device", "host"] = "device"
    enabled: bool = True


class GateBody(WhyBody):
    """``PUT /api/gate``. Shares from 0 to 1; without ``tenant`` for the served base."""

    min_score: float | None = Field(None, ge=0, le=1)
    max_drop: float = Field(0.02, ge=0, le=1)


class ReregisterBody(StrictBody):
    """``POST /api/bases/reregister``. ``source`` is the folder of a base that does not serve yet, for a dry run."""

    source: str | None = None
    tenant: str | None = Field(None, max_length=64)
    compatible_base: bool = False
    dry_run: bool = False
    offset: int = Field(0, ge=0)
    limit: int = Field(100, ge=1, le=1000)
