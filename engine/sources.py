"""Names and places that callers may give: aliases are ids, and paths stay inside the allowed folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from engine.errors import InvalidRequest, SourceNotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterable

ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}){0,2}")
MAX_SOURCE_CHARS = 1024


def check_alias(alias: str, *, reserved: Iterable[str] = ()) -> str:
    """The alias itself, or InvalidRequest: letters, digits, ``. _ -``, and at most two slashes, as in ``acme/support``."""
    if not ALIAS.fullmatch(alias) or ".." in alias:
        message = "An alias is 1 to 64 letters, digits, '.', '_' or '-', optionally tenant/name; this one is not."
        raise InvalidRequest(message, code="invalid_alias", param="alias", expected="tenant/name", found=alias[:80])
    if alias in reserved:
        message = f"{alias!r} is the name of a base; choose another alias."
        raise InvalidRequest(message, code="invalid_alias", param="alias", found=alias)
    return alias


def allowed_folder(source: str, allowed: Iterable[str]) -> Path:
    """The real folder behind ``source`` (a path or file:// URL) when it lies in an allowed one.

    Raises SourceNotAllowed with the same words whether or not something is there, before anything is opened.
    """
    refusal = SourceNotAllowed(
        "This source is outside the folders that adapters may be registered from; see --source-allow.",
        param="source",
        found=source[:80],
    )
    if not source or len(source) > MAX_SOURCE_CHARS or "\0" in source:
        raise refusal
    path = _as_path(source)
    if path is None:
        raise refusal
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        raise refusal from None
    roots = [root.resolve() for text in allowed if (root := _as_path(text)) is not None]
    if not any(real.is_relative_to(root) for root in roots):
        raise refusal
    return real


def _as_path(text: str) -> Path | None:
    """A local path; None for any other scheme."""
    if "://" not in text:
        return Path(text).expanduser()
    parts = urlsplit(text)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in {"", "localhost"} else None
