"""The filter field of the adapters page: ``tenant:acme tier:host pinned:true rank:>16 idle:>7d``, else part of a name. Pure."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine import AdapterRow

AGES_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TOKEN: Final = re.compile(r"^(tenant|tier|pinned|leased|rank|idle):(.+)$")


def words_of(text: str) -> list[Callable[[AdapterRow], bool]]:
    """One test a word; what is no token is part of an alias or the start of a version id."""
    return [_word(word) for word in text.lower().split()]


def _word(word: str) -> Callable[[AdapterRow], bool]:
    match = TOKEN.match(word)
    if match is None:
        return lambda row: word in row.alias.lower() or row.id.startswith(word)
    key, value = match.groups()
    tests: dict[str, Callable[[AdapterRow], bool]] = {
        "tenant": lambda row: row.tenant.lower() == value,
        "tier": lambda row: row.tier == value,
        "pinned": lambda row: row.pinned == _true(value),
        "leased": lambda row: (row.leases > 0) == _true(value),
        "rank": lambda row: _compare(row.rank, value, float),
        "idle": lambda row: _compare(_idle_s(row), value, _age_s),
    }
    return tests[key]


def _true(value: str) -> bool:
    return value in {"true", "yes", "1"}


def _idle_s(row: AdapterRow) -> float:
    return time.time() - (row.last_used_unix or row.registered_unix)


def _age_s(value: str) -> float:
    return float(value[:-1]) * AGES_S[value[-1]] if value[-1:] in AGES_S else float(value)


def _compare(actual: float, wanted: str, read: Callable[[str], float]) -> bool:
    match = re.match(r"^(>=|<=|>|<|=)?(.+)$", wanted)
    assert match is not None, "a word has at least one character after its colon"
    sign, value = match.groups()
    try:
        limit = read(value)
    except ValueError:
        return False
    return {">": actual > limit, ">=": actual >= limit, "<": actual < limit, "<=": actual <= limit}.get(sign, actual == limit)
