"""How long a pin lasts. Pure."""

from __future__ import annotations

import time
from typing import Final

from console.format import DAY_S, HOUR_S

HORIZONS: Final = {"1h": "1 h", "8h": "8 h", "mon": "Mon 09:00", "none": "no end"}
FOR_WORDS: Final = {"1h": "for 1 h", "8h": "for 8 h", "mon": "until Mon 09:00", "none": "with no end"}
DEFAULT_HORIZON: Final = "8h"
WORK_BEGINS_H: Final = 9


def end_of(horizon: str, now_unix: float) -> float | None:
    """Unix seconds of the end; None is no end."""
    match horizon:
        case "1h":
            return now_unix + HOUR_S
        case "8h":
            return now_unix + 8 * HOUR_S
        case "mon":
            return next_monday(now_unix)
        case _:
            return None


def next_monday(now_unix: float) -> float:
    """The next Monday at nine, local time."""
    now = time.localtime(now_unix)
    days = -now.tm_wday % 7
    monday = time.mktime((now.tm_year, now.tm_mon, now.tm_mday + days, WORK_BEGINS_H, 0, 0, 0, 0, -1))
    if monday > now_unix:
        return monday
    return (
        time.mktime((now.tm_year, now.tm_mon, now.tm_mday + days + 7, WORK_BEGINS_H, 0, 0, 0, 0, -1)) if days == 0 else monday + 7 * DAY_S
    )
