"""Daily times are due by the wall clock of their zone."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.errors import InvalidRequest
from engine.versions.times import WallTime, day_of


def unix(text: str) -> float:
    """Of an ISO time with its offset."""
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-03-28T06:00+01:00", "2026-03-28T07:30+01:00"),
        ("2026-03-28T07:30+01:00", "2026-03-29T07:30+02:00"),  # summer time began in between
        ("2026-10-24T08:00+02:00", "2026-10-25T07:30+01:00"),
        ("2026-12-31T23:00+01:00", "2027-01-01T07:30+01:00"),
    ],
)
def test_a_daily_time_follows_the_wall(now: str, due: str) -> None:
    """The next one is strictly later, also over a change of the clocks."""
    assert WallTime.read("07:30", zone="Europe/Berlin").next_after(unix(now)) == unix(due)


def test_a_time_that_is_skipped_or_comes_twice_is_due_once() -> None:
    """In spring 02:30 does not exist and is due an hour later; in autumn it comes twice and counts the first time."""
    at = WallTime.read("02:30", zone="Europe/Berlin")
    assert at.next_after(unix("2026-03-29T00:00+01:00")) == unix("2026-03-29T03:30+02:00")
    first = at.next_after(unix("2026-10-25T00:00+02:00"))
    assert first == unix("2026-10-25T02:30+02:00")
    assert at.next_after(first) == unix("2026-10-26T02:30+01:00")


def test_weekdays_are_kept() -> None:
    """From Friday to Monday."""
    at = WallTime.read("08:00", days=("mon", "tue", "wed", "thu", "fri"))
    assert (at.text, at.days) == ("08:00", (0, 1, 2, 3, 4))
    assert at.next_after(unix("2026-11-27T08:00+00:00")) == unix("2026-11-30T08:00+00:00")
    assert day_of(unix("2026-11-30T23:30+00:00"), "Asia/Tokyo") == "2026-12-01"


@pytest.mark.parametrize("text", ["2:30", "24:00", "noon", "12:00:30", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    """By field; so are unknown zones and days."""
    with pytest.raises(InvalidRequest) as caught:
        WallTime.read(text)
    assert caught.value.param == "time"
    for options, param in (({"zone": "Mars/Base"}, "zone"), ({"days": ("xyz",)}, "days"), ({"days": ()}, "days")):
        with pytest.raises(InvalidRequest) as caught:
            WallTime.read("08:00", **options)  # type: ignore[arg-type]
        assert caught.value.param == param
