"""Limits as people type and read them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from console import format as fmt
from engine import Allowance

MOST: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One field of an allowance: what it is called, its unit, and what happens over it."""

    name: str
    label: str
    unit: str
    hint: str


LIMITS: Final = (
    Limit(name="requests_per_minute", label="Requests", unit="per min", hint="Over it: 429, with the time to wait"),
    Limit(name="tokens_per_minute", label="Tokens", unit="per min", hint="Prompt and output. Over it: 429, with the time to wait"),
    Limit(name="monthly_tokens", label="Tokens", unit="per month", hint="Prompt and output of a calendar month, UTC. Over it: 429"),
    Limit(name="max_tokens", label="Output", unit="tok per request", hint="A request that asks for more: 400"),
    Limit(name="max_waiting", label="Waiting", unit="requests", hint="Over it: 429"),
    Limit(name="max_running", label="Running", unit="requests", hint="Over it: requests wait with the reason tenant_limit"),
    Limit(name="max_kv_pages", label="KV", unit="pages", hint="Over it: requests wait with the reason tenant_limit"),
    Limit(
        name="max_adapter_pages", label="Adapters", unit="pages", hint="On the device. Over it: requests wait with the reason tenant_limit"
    ),
)
WEIGHT: Final = Limit(name="weight", label="Weight", unit="share", hint="Of a contended engine: 2 is served twice as much as 1")


class NotALimit(ValueError):
    """What was typed is none; the message says what is."""


def typed(value: float | None) -> str:
    """A limit in its field: empty is no limit."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else f"{value:,}"


def read(limit: Limit, text: str) -> float | int | None:
    """What was typed into the field of ``limit``. Raises NotALimit."""
    plain = text.replace(",", "").replace(" ", "").replace("\u202f", "").strip()
    if limit is WEIGHT:
        return _weight(plain)
    if plain in {"", fmt.DASH, "-"}:
        return None
    if not (plain.isascii() and plain.isdigit()) or int(plain) > MOST:
        message = "A whole number, or empty for no limit"
        raise NotALimit(message)
    return int(plain)


def _weight(plain: str) -> float:
    try:
        weight = float(plain or "1")
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 1000:  # noqa: PLR2004 - a thousand times the others is as good as alone
        message = "A number above 0, at most 1,000"
        raise NotALimit(message)
    return weight


def allowance(values: dict[str, Any]) -> Allowance:
    """From the values of all fields by name."""
    return Allowance(**values)


def words(of: Allowance) -> str:
    """The limits that are set, in one line; "no limit" when none is."""
    parts = [f"{getattr(of, each.name):,} {each.label.lower()} {each.unit}" for each in LIMITS if getattr(of, each.name) is not None]
    return ", ".join(parts) or "no limit"
