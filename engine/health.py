"""Whether the engine thread makes progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.loop import EngineLoop
    from engine.snapshot import EngineSnapshot, EngineState


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What it is, and why."""

    ok: bool
    state: EngineState
    reason: str
    last_progress_age_s: float


NOT_STARTED = Health(ok=False, state="starting", reason="the engine has not started", last_progress_age_s=0.0)


def health_of(loop: EngineLoop, snapshot: EngineSnapshot, *, now_s: float, stuck_after_s: float) -> Health:
    """Of an engine that was started, by its clock."""
    age_s = now_s - loop.last_progress_s
    if not loop.is_alive:
        return Health(ok=False, state="down", reason="the engine thread has ended", last_progress_age_s=age_s)
    if age_s > stuck_after_s:
        return Health(ok=False, state="down", reason=f"no step has ended for {age_s:.0f} s", last_progress_age_s=age_s)
    return Health(ok=True, state=snapshot.state, reason=snapshot.state_reason, last_progress_age_s=age_s)
