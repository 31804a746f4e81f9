"""rank_pattern and alpha_pattern: values by module name, matched as PEFT does but in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from engine.adapters.fields import field_refusal
from engine.adapters.refusal import refusal, shown

V = TypeVar("V")

PLAIN = re.compile(r"[\w.\-]+")
SAFE_REGEX = re.compile(r"[\w.\\\-^$|()\[\]*+?]{1,256}")
NOT_SERVED = re.compile(r"\)[*+?]|\(\?|\\[1-9]|\[[^\]]*\[|--|\|\|")
"""A quantified group, a look-around or a back-reference can take exponential time; nested sets have no fixed meaning."""
QUANTIFIER = re.compile(r"[*+?]")
NAME_CHARS = 32
MAX_COST = 100_000
"""Backtracking steps of all regexes of a pattern on one name; some 1,000 names then take about a second at worst."""


@dataclass(frozen=True, slots=True)
class ModulePatterns(Generic[V]):
    """Values in the order written; the first key that matches a module's full name, or its end after a dot, wins."""

    entries: tuple[tuple[str, Callable[[str], bool], V], ...]

    @classmethod
    def read(cls, mapping: object, *, field: str, as_value: Callable[[object, str], V]) -> ModulePatterns[V]:
        """From the config's object; null is empty. Raises AdapterRefused on a wrong kind or a regex that could take for ever."""
        if mapping is None:
            return cls(())
        if not isinstance(mapping, dict):
            raise field_refusal(mapping, field, "an object of values by module name")
        _check_cost([key for key in mapping if not PLAIN.fullmatch(key)], field)
        return cls(tuple((key, _matcher(key, field), as_value(value, f"{field}[{shown(key)}]")) for key, value in mapping.items()))

    def value_for(self, name: str, *, default: V) -> V:
        """The value for a module's full name."""
        return next((value for _, matches, value in self.entries if matches(name)), default)

    def unused(self, names: Iterable[str]) -> tuple[str, ...]:
        """Keys that match none of the names."""
        listed = tuple(names)
        return tuple(key for key, matches, _ in self.entries if not any(map(matches, listed)))


def _check_cost(keys: list[str], field: str) -> None:
    """Refuse what cannot be matched in bounded time."""
    for key in keys:
        if not SAFE_REGEX.fullmatch(key) or NOT_SERVED.search(key):
            _refuse(key, field)
    if keys and sum(map(_cost, keys)) > MAX_COST:
        _refuse(max(keys, key=_cost), field)


def _cost(key: str) -> int:
    groups = max(1, key.count("("))
    return int((key.count("|") + 1) ** groups * NAME_CHARS ** len(QUANTIFIER.findall(key)))


def _matcher(key: str, field: str) -> Callable[[str], bool]:
    if PLAIN.fullmatch(key):
        return partial(_ends_with, key)
    try:
        return partial(_matches_end, re.compile(key))
    except re.error as error:
        message = f"{field} has a key that is no regular expression: {shown(key)} ({error})."
        raise refusal("config_invalid", message, param=field, expected="a module name or regular expression", found=key) from None


def _ends_with(key: str, name: str) -> bool:
    return name == key or name.endswith(f".{key}")


def _matches_end(pattern: re.Pattern[str], name: str) -> bool:
    """``^`` means the start of the name, not of its end."""
    starts = [0, *(dot.end() for dot in re.finditer(r"\.", name))]
    return any(pattern.fullmatch(name, start) for start in starts)


def _refuse(key: str, field: str) -> None:
    message = f"{field} has a regular expression that could take very long to match: {shown(key)}. Name the modules instead."
    raise refusal("pattern_too_complex", message, param=field, expected="module names", found=key)
