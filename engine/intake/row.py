"""One line of a manifest, checked field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.errors import InvalidRequest, LoradeckError
from engine.intake.place import MAX_SOURCE_CHARS
from engine.names import check_alias

MAX_DESCRIPTION_CHARS = 2000
TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": None}
FIELDS = ("source", "alias", "tenant", "adapter", "description", "compatible_base", "replace", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a row is rejected: a code for machines, words for people, and the field."""

    code: str
    message: str
    param: str | None = None

    @classmethod
    def of(cls, error: LoradeckError) -> Fault:
        """What a refusal says."""
        return cls(code=error.code, message=error.message, param=error.param)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """What is to be registered. ``line`` counts from 1 as an editor does; "" and None take what the import says."""

    line: int
    source: str = ""
    alias: str = ""
    tenant: str = ""
    adapter: str = ""
    """Name of the line of versions; "" takes the alias."""
    description: str = ""
    compatible_base: bool | None = None
    replace: bool | None = None
    sha256: str = ""
    fault: Fault | None = None
    """Found before anything was opened."""

    @classmethod
    def read(cls, line: int, values: Mapping[str, Any]) -> ImportRow:
        """Check every field; the first at fault is named in ``fault``. Numbers and flags of JSON and YAML are taken as their text."""
        row = cls(line=line, source=_shown(values.get("source")), alias=_shown(values.get("alias")))
        try:
            return cls(line=line, **_checked(values))
        except LoradeckError as error:
            return replace(row, fault=Fault.of(error))

    def as_json(self) -> dict[str, Any]:
        """To be stored; ``from_json`` brings it back."""
        return {name: value for name, value in asdict(self).items() if name != "fault" and value not in {"", None}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ImportRow:
        """As it was stored."""
        return cls(**stored)


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    for name in values:
        if name not in FIELDS:
            raise _invalid(
                str(name)[:80], f"There is no field {str(name)[:80]!r}; the fields are {', '.join(FIELDS)}.", code="unknown_field"
            )
    texts = {name: _text(name, values.get(name)) for name in FIELDS}
    if not 1 <= len(texts["source"]) <= MAX_SOURCE_CHARS:
        raise _invalid("source", f"'source' is a path or an address of 1 to {MAX_SOURCE_CHARS} characters.", found=len(texts["source"]))
    check_alias(texts["alias"])
    _check_form("tenant", texts["tenant"], TENANT, "small letters, digits, '.', '_' or '-'")
    _check_form("adapter", texts["adapter"], LINE, "letters, digits, '.', '_', '-', ':', '@' or '/'")
    _check_form("sha256", texts["sha256"], SHA256, "64 hex digits, the sha256 of the weights file")
    if len(texts["description"]) > MAX_DESCRIPTION_CHARS:
        raise _invalid("description", f"'description' has at most {MAX_DESCRIPTION_CHARS} characters.", found=len(texts["description"]))
    flags = {name: _flag(name, texts.pop(name)) for name in ("compatible_base", "replace")}
    return texts | flags


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise _invalid(name, f"{name!r} is a text.", found=type(value).__name__)
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise _invalid(name, f"{name!r} holds characters that no text has.")
    return value.strip()


def _flag(name: str, text: str) -> bool | None:
    if text.lower() not in FLAGS:
        raise _invalid(name, f"{name!r} is true or false.", found=text[:80])
    return FLAGS[text.lower()]


def _check_form(name: str, text: str, form: re.Pattern[str], words: str) -> None:
    if text and not form.fullmatch(text):
        raise _invalid(name, f"{name!r} is {words}.", found=text[:80])


def _invalid(name: str, message: str, *, code: str = "invalid_value", found: object = None) -> InvalidRequest:
    return InvalidRequest(message, code=code, param=name, found=found)


def _shown(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
