"""One field of a stranger's JSON as the kind it must be, or a refusal that names it."""

from __future__ import annotations

from engine.adapters.refusal import refusal, shown
from engine.errors import AdapterRefused

MAX_RANK_WRITTEN = 65_536
MAX_ALPHA = 1e9


def is_unset(value: object) -> bool:
    """Whether it says nothing: null, false, zero or empty."""
    return not value


def rank_field(value: object, field: str) -> int:
    """A rank: a whole number, not a flag and not text."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_RANK_WRITTEN:
        return value
    raise field_refusal(value, field, "a whole number of at least 1")


def number_field(value: object, field: str) -> float:
    """A finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_ALPHA:
        return float(value)
    raise field_refusal(value, field, f"a number of at most {MAX_ALPHA:g}")


def flag_field(value: object, field: str) -> bool:
    """True or false; null is false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise field_refusal(value, field, "true or false")


def text_field(value: object, field: str) -> str:
    """A text; null is empty."""
    if value is None or isinstance(value, str):
        return value or ""
    raise field_refusal(value, field, "a text")


def names_field(value: object, field: str) -> tuple[str, ...]:
    """A list of texts; null is empty."""
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise field_refusal(value, field, "a list of names")


def field_refusal(value: object, field: str, expected: str) -> AdapterRefused:
    """The error to raise for a field of the wrong kind."""
    found = shown(repr(value))
    return refusal("config_invalid", f"{field} must be {expected}; found {found}.", param=field, expected=expected, found=found)
