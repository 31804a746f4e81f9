"""Numbers, sizes, times and words as operators read them. Pure; unknown is "–", none is "0", minus is "−"."""

from __future__ import annotations

import re
import time
from typing import Final

DASH: Final = "–"
MINUS: Final = "−"
GIB: Final = 2**30
MIB: Final = 2**20
MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86400
BIG_DEVICE_BYTES: Final = 4 * GIB
"""From this total on, a device is spoken of in GiB, below in MiB."""


def count(value: float | None) -> str:
    """A whole number with thousands commas."""
    return DASH if value is None else f"{round(value):,}".replace("-", MINUS)


def signed(value: int) -> str:
    """A whole number that always shows its sign, as in a ledger."""
    return f"+{value:,}" if value > 0 else count(value)


def rate(value: float | None) -> str:
    """Something per unit of time: one decimal under 100, whole above."""
    if value is None:
        return DASH
    if value == 0:
        return "0"
    return f"{value:.1f}" if value < 99.95 else count(value)  # noqa: PLR2004 - where one decimal stops being readable


def latency(seconds: float | None) -> tuple[str, str]:
    """(number, unit): ms under 1 s, s above, three significant figures at most."""
    if seconds is None:
        return DASH, ""
    ms = seconds * 1000
    if ms >= 999.5:  # noqa: PLR2004 - rounds to 1,000 ms
        decimals = 2 if seconds < 9.995 else 1 if seconds < 99.95 else 0  # noqa: PLR2004 - three figures
        return f"{seconds:,.{decimals}f}", "s"
    if ms >= 9.95 or ms == 0:  # noqa: PLR2004 - whole milliseconds from 10 on
        return str(round(ms)), "ms"
    return (f"{ms:.1f}".removesuffix(".0") if ms >= 0.05 else "<0.1"), "ms"  # noqa: PLR2004 - below a twentieth of a millisecond


def latency_text(seconds: float | None) -> str:
    """``latency`` as one string."""
    return " ".join(latency(seconds)).strip()


def unbroken(sentence: str) -> str:
    """The same, where it may be broken anywhere but between a number and its unit."""
    return re.sub(r"(\d) (?=(?:%|ms|s|min|m|h|d|MiB|GiB|MB|GB)(?!\w))", "\\1\u00a0", sentence)


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as a number without its sign."""
    return DASH if share is None else f"{share * 100:.{decimals}f}"


def unit_of(total_bytes: int) -> str:
    """The one unit a memory card uses for a device of this size."""
    return "GiB" if total_bytes >= BIG_DEVICE_BYTES else "MiB"


def memory(num_bytes: int | None, unit: str) -> str:
    """Bytes in ``unit``: GiB with two decimals, MiB with one; a trace is never shown as zero."""
    if num_bytes is None:
        return DASH
    size, decimals = (GIB, 2) if unit == "GiB" else (MIB, 1)
    if num_bytes and abs(num_bytes) < size * 0.5 * 10**-decimals:
        return f"<{10**-decimals:.{decimals}f}"
    return f"{num_bytes / size:,.{decimals}f}".replace("-", MINUS)


def size(num_bytes: int | None) -> str:
    """Bytes with the unit that suits them."""
    if num_bytes is None:
        return DASH
    if num_bytes >= GIB:
        return f"{num_bytes / GIB:,.2f} GiB"
    if num_bytes >= 10 * MIB or num_bytes == 0:
        return f"{num_bytes / MIB:,.0f} MiB"
    return f"{num_bytes / MIB:,.1f}".removesuffix(".0") + " MiB" if num_bytes >= MIB / 10 else f"{num_bytes / 1024:,.0f} KiB"


def mib(num_bytes: int) -> str:
    """MiB for a column whose head names the unit: whole from 10 on."""
    value = num_bytes / MIB
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"  # noqa: PLR2004 - two digits carry enough


def decimal_size(num_bytes: int | None) -> str:
    """Disk sizes, in the decimal units disks are sold in."""
    if num_bytes is None:
        return DASH
    if num_bytes >= 10**9:
        return f"{num_bytes / 1e9:,.2f} GB"
    return f"{num_bytes / 1e6:,.0f} MB"


def parameters(number: int) -> str:
    """How many weights: "8.03 B", "135 M"."""
    return f"{number / 1e9:.2f} B" if number >= 10**9 else f"{number / 1e6:.0f} M"


def duration(seconds: float | None) -> str:
    """How long something has lasted, two units at most: "14 s", "11 min", "5 h 12 m", "3 d 04 h"."""
    if seconds is None:
        return DASH
    whole = max(0, int(seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    if whole < DAY_S:
        return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S:02d} m"
    return f"{whole // DAY_S} d {whole % DAY_S // HOUR_S:02d} h"


def clock(unix: float | None) -> str:
    """Local time of day with seconds."""
    return DASH if unix is None else time.strftime("%H:%M:%S", time.localtime(unix))


def clock_day(unix: float | None) -> str:
    """Date and local time: "12 Dec 2026, 14:02:33"."""
    return DASH if unix is None else time.strftime("%d %b %Y, %H:%M:%S", time.localtime(unix)).lstrip("0")


def hour_minute(unix: float | None) -> str:
    """Local time of day."""
    return DASH if unix is None else time.strftime("%H:%M", time.localtime(unix))


def utc(unix: float | None) -> str:
    """The same moment in UTC, for hovers."""
    return DASH if unix is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix))


def utc_offset(unix: float) -> str:
    """The local offset: "UTC+1", "UTC−3:30", "UTC"."""
    minutes = time.localtime(unix).tm_gmtoff // 60
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else MINUS}{hours}" + (f":{rest:02d}" if rest else "")


def pin_end(until_unix: float | None, now_unix: float) -> str:
    """When a pin ends: "no end", "09:00" within the day, "Mon 09:00" within the week, "12 Dec" beyond."""
    if until_unix is None:
        return "no end"
    end, now = time.localtime(until_unix), time.localtime(now_unix)
    if (end.tm_year, end.tm_yday) == (now.tm_year, now.tm_yday):
        return time.strftime("%H:%M", end)
    if until_unix - now_unix < 7 * DAY_S:
        return time.strftime("%a %H:%M", end)
    return time.strftime("%d %b", end).lstrip("0")


def plural(number: int, noun: str) -> str:
    """As in "1 adapter" or "3 adapters"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def precision(dtype: str) -> str:
    """The short name of a number format: "fp32", "bf16"."""
    return {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(dtype, dtype)


def digest(version: str) -> str:
    """The first eight digits of a version, enough to tell two apart on a page."""
    return version[:8]


def tokens(number: float | None) -> str:
    """Tokens: whole below ten thousand, then three figures of a thousand, a million or a billion, without zeros at the end."""
    if number is None or number < 10_000:  # noqa: PLR2004 - four digits are read at a glance
        return count(number)
    scale, unit = (1000, "k") if number < 999_500 else (10**6, "M") if number < 999_500_000 else (10**9, "B")  # noqa: PLR2004 - rounds up
    value = number / scale
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004 - three figures
    plain = f"{value:,.{decimals}f}"
    return f"{plain.rstrip('0').rstrip('.') if '.' in plain else plain} {unit}"


def moment(unix: float | None, now_unix: float) -> str:
    """When something was: "14:03:12" today, "12 Dec 14:03" this year, "12 Dec 2025" before."""
    if unix is None:
        return DASH
    then, now = time.localtime(unix), time.localtime(now_unix)
    if (then.tm_year, then.tm_yday) == (now.tm_year, now.tm_yday):
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == now.tm_year else "%d %b %Y", then).lstrip("0")


def ago(unix: float | None, now_unix: float) -> str:
    """How long ago: "14 s ago", "never" where it has not been."""
    return "never" if unix is None else f"{duration(now_unix - unix)} ago"
