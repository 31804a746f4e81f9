"""Log lines that nobody can forge: one event, one physical line, values quoted."""

from __future__ import annotations

import json
import logging
import re

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LONGEST_VALUE = 200


class OneLineFormatter(logging.Formatter):
    """Formats a record, its traceback included, on one physical line without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return UNSAFE.sub(_escape, super().format(record))


def fields(**values: object) -> str:
    """``key=value`` pairs; text is quoted, escaped to ASCII and cut; None is left out."""
    return " ".join(f"{key}={_value(value)}" for key, value in values.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return UNSAFE.sub(_escape, json.dumps(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
