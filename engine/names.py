"""Names that callers may give to what they register: aliases are ids, never paths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.errors import BaseRefused, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.alias import AliasName

ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}){0,2}")


def check_alias(alias: str, *, reserved: Iterable[str] = ()) -> str:
    """The alias itself, or InvalidRequest: letters, digits, ``. _ -``, and at most two slashes, as in ``acme/support``."""
    if not ALIAS.fullmatch(alias) or ".." in alias:
        message = "An alias is 1 to 64 letters, digits, '.', '_' or '-', optionally tenant/name; this one is not."
        raise InvalidRequest(message, code="invalid_alias", param="alias", expected="tenant/name", found=alias[:80])
    if alias in reserved:
        message = f"{alias!r} is the name of a base; choose another alias."
        raise InvalidRequest(message, code="invalid_alias", param="alias", found=alias)
    return alias


def check_base_name(base: str, aliases: Iterable[AliasName]) -> None:
    """Raises BaseRefused where an alias has the name: the base would answer in the adapter's place."""
    taken = next((alias for alias in aliases if alias.name == base), None)
    if taken is not None:
        message = (
            f"The base's name {base!r} is an alias of tenant {taken.tenant!r}. Rename the base's folder, or withdraw the alias "
            "while another base serves."
        )
        raise BaseRefused(message, code="base_name_taken", param="base", found=base)
