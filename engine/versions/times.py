"""When a daily schedule is due, by the wall clock of its zone, over changes to and from summer time. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.errors import InvalidRequest

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
DAYS_AHEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WallTime:
    """A minute of the day on some weekdays, 0 being Monday. One that the clocks skip is due an hour later, one that comes twice once."""

    minute: int
    days: tuple[int, ...]
    zone: str

    @classmethod
    def read(cls, text: str, *, days: tuple[str, ...] = WEEKDAYS, zone: str = "UTC") -> WallTime:
        """From ``HH:MM``, three-letter weekdays and an IANA name. Raises InvalidRequest naming the field."""
        found = TIME.fullmatch(text)
        if found is None:
            message = f"{text[:20]!r} is not a time of day."
            raise InvalidRequest(message, param="time", expected="HH:MM", found=text[:20])
        if not days or not set(days) <= set(WEEKDAYS):
            message = f"days are some of {', '.join(WEEKDAYS)}."
            raise InvalidRequest(message, param="days", expected=list(WEEKDAYS), found=[day[:20] for day in days[:16]])
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            message = f"{zone[:60]!r} is no time zone that this machine knows."
            raise InvalidRequest(message, param="zone", expected="an IANA name such as Europe/Berlin", found=zone[:60]) from None
        return cls(minute=int(found[1]) * 60 + int(found[2]), days=tuple(sorted({WEEKDAYS.index(day) for day in days})), zone=zone)

    @property
    def text(self) -> str:
        """``HH:MM``."""
        return f"{self.minute // 60:02}:{self.minute % 60:02}"

    def next_after(self, unix: float) -> float:
        """The first moment due strictly after ``unix`` seconds."""
        zone = ZoneInfo(self.zone)
        at = time(self.minute // 60, self.minute % 60)
        today = datetime.fromtimestamp(unix, zone).date()
        days = (today + timedelta(days=ahead) for ahead in range(-1, DAYS_AHEAD))
        due = (datetime.combine(day, at, zone).astimezone(UTC).timestamp() for day in days if day.weekday() in self.days)
        return min(moment for moment in due if moment > unix)


def day_of(unix: float, zone: str) -> str:
    """The date there, as 2026-11-30."""
    return datetime.fromtimestamp(unix, ZoneInfo(zone)).date().isoformat()
