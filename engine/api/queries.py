"""Query parameters, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import InvalidRequest

LARGEST = 2**53
TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")


def number(query: Mapping[str, str], name: str, *, default: int, most: int = LARGEST) -> int:
    """A whole number from 0 to ``most``."""
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST)) and int(text) <= most):
        raise InvalidRequest(f"'{name}' is a whole number from 0 to {most}.", param=name, expected=f"0 to {most}", found=text)
    return int(text)


def whole(name: str, text: str) -> int:
    """A whole number in a path."""
    return number({name: text}, name, default=0)


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Yes, no, or not given."""
    text = query.get(name)
    if text is None:
        return None
    if text.lower() not in TRUE + FALSE:
        raise InvalidRequest(f"'{name}' is 1 or 0.", param=name, expected="1 or 0", found=text)
    return text.lower() in TRUE


def one_of(query: Mapping[str, str], name: str, choices: tuple[str, ...], *, default: str | None = None) -> str | None:
    """One of ``choices``, or ``default`` when not given."""
    text = query.get(name)
    if text is None:
        return default
    if text not in choices:
        raise InvalidRequest(f"'{name}' is one of {', '.join(choices)}.", param=name, expected=list(choices), found=text)
    return text
