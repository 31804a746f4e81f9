"""Numbers and times as operators read them."""

from __future__ import annotations

import time

import pytest

from console import format as fmt

GIB = 2**30


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, ("–", "")),
        (0.0, ("0", "ms")),
        (0.00002, ("<0.1", "ms")),
        (0.0004, ("0.4", "ms")),
        (0.007, ("7", "ms")),
        (0.0182, ("18", "ms")),
        (0.604, ("604", "ms")),
        (0.9994, ("999", "ms")),
        (0.9996, ("1.00", "s")),
        (1.84, ("1.84", "s")),
        (19.44, ("19.4", "s")),
        (123.4, ("123", "s")),
    ],
)
def test_latency_is_ms_under_a_second_and_three_figures_above(seconds: float | None, expected: tuple[str, str]) -> None:
    """One value reads the same wherever it stands."""
    assert fmt.latency(seconds) == expected


def test_unknown_is_a_dash_and_none_is_zero() -> None:
    """What is not known never looks like nothing."""
    unknown = [
        fmt.count(None),
        fmt.rate(None),
        fmt.percent(None),
        fmt.size(None),
        fmt.duration(None),
        fmt.clock(None),
        fmt.memory(None, "GiB"),
    ]
    assert unknown == ["–"] * len(unknown)
    assert [fmt.count(0), fmt.rate(0), fmt.percent(0.0), fmt.size(0), fmt.memory(0, "GiB")] == ["0", "0", "0.0", "0 MiB", "0.00"]


@pytest.mark.parametrize(("value", "expected"), [(0.1, "0.1"), (46.72, "46.7"), (99.96, "100"), (9810.2, "9,810"), (0.04, "0.0")])
def test_rates_have_one_decimal_under_a_hundred(value: float, expected: str) -> None:
    """Above, decimals are noise."""
    assert fmt.rate(value) == expected


def test_a_ledger_shows_signs_and_a_true_minus() -> None:
    """Plus where pages come free, minus where they are taken."""
    assert [fmt.signed(40), fmt.signed(-160), fmt.signed(0), fmt.count(-1234)] == ["+40", "−160", "0", "−1,234"]


def test_memory_uses_one_unit_and_never_rounds_a_trace_to_zero() -> None:
    """A small part of a big device is there, and says so."""
    assert fmt.memory(int(14.96 * GIB), "GiB") == "14.96"
    assert fmt.memory(1, "GiB") == "<0.01"
    assert fmt.memory(3 * 2**20, "MiB") == "3.0"
    assert [fmt.unit_of(140 * GIB), fmt.unit_of(GIB)] == ["GiB", "MiB"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(14, "14 s"), (660, "11 min"), (18720, "5 h 12 m"), (3 * 86400 + 4 * 3600, "3 d 04 h"), (-3, "0 s")]
)
def test_durations_have_two_units_at_most(seconds: float, expected: str) -> None:
    """Long enough to act on, short enough to read."""
    assert fmt.duration(seconds) == expected


def test_a_pin_says_when_it_ends() -> None:
    """The day only when it is not today."""
    noon = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
    ends = [None, noon + 3600, noon + 5 * 86400, noon + 30 * 86400]
    assert [fmt.pin_end(end, noon) for end in ends] == ["no end", "13:00", "Mon 12:00", "25 Dec"]


@pytest.mark.parametrize(("zone", "expected"), [("UTC0", "UTC"), ("CET-1", "UTC+1"), ("NST3:30", "UTC−3:30")])
def test_the_offset_is_named(zone: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local time is worth nothing without its offset."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert fmt.utc_offset(time.time()) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


def test_words_agree_with_numbers() -> None:
    """One adapter, three adapters, 8.03 B weights."""
    words = [
        fmt.plural(1, "adapter"),
        fmt.plural(3, "adapter"),
        fmt.parameters(8_030_000_000),
        fmt.parameters(134_515_008),
        fmt.digest("e2b7905fa1"),
    ]
    assert words == ["1 adapter", "3 adapters", "8.03 B", "135 M", "e2b7905f"]


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    """A no-break space between them, and plain ones between words and after numbers of things."""
    said = fmt.unbroken("3 run; within 612 ms for 95 % of the last 1 min, 2.5 GiB, 6 h 00 m; 2 of them.")
    assert said == "3 run; within 612\u00a0ms for 95\u00a0% of the last 1\u00a0min, 2.5\u00a0GiB, 6\u00a0h 00\u00a0m; 2 of them."
