"""When an alias is warmed, as people say it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TRIGGERS: Final = {"time": "at a time of day", "sign_in": "when its people sign in", "first_request": "at its first request of the day"}


def when_words(schedule: Mapping[str, Any]) -> str:
    """As in "Mon–Fri 08:30 Europe/Berlin" or "when its people sign in"; of a schedule's facts."""
    days, minute = schedule["days"], schedule["minute"]
    if minute is None:
        return TRIGGERS[schedule["trigger"]]
    run = len(days) > 2 and list(days) == list(range(days[0], days[-1] + 1))  # noqa: PLR2004 - from three on a run is shorter
    names = (
        "daily"
        if len(days) == len(DAYS)
        else f"{DAYS[days[0]].title()}–{DAYS[days[-1]].title()}"
        if run
        else ", ".join(DAYS[day].title() for day in days)
    )
    return f"{names} {minute // 60:02}:{minute % 60:02} {schedule['zone']}"
