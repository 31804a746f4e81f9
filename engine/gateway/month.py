"""Tokens of the calendar month, UTC."""

from __future__ import annotations

from datetime import UTC, datetime


class Month:
    """What was used since the month began, and what calls under way may still use. Not thread-safe."""

    def __init__(self) -> None:
        self.used = 0
        self.reserved = 0
        self._name = ""

    def pass_time(self, now_unix: float) -> None:
        """With a new month nothing is used; calls under way count for the month in which they end."""
        name = month_name(now_unix)
        if name != self._name:
            self._name, self.used = name, 0

    def restore(self, used: int, now_unix: float) -> None:
        """What was used before this process began."""
        self.pass_time(now_unix)
        self.used += used


def month_name(unix: float) -> str:
    """``2026-11``."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m")


def month_left_s(unix: float) -> float:
    """Seconds until the next month begins."""
    now = datetime.fromtimestamp(unix, UTC)
    following = now.replace(year=now.year + now.month // 12, month=now.month % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return (following - now).total_seconds()
