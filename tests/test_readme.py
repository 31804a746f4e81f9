"""What the README tells a newcomer is so."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic.fields import FieldInfo

from engine.settings import Settings, parse_bytes

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def settings_table() -> str:
    """The table of README.md, from the settings class."""
    rows = [
        f"| `--{name.replace('_', '-')}` | {default_text(field)} | {field.description} |" for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| Flag | Default | Meaning |", "|---|---|---|", *rows])


def default_text(field: FieldInfo) -> str:
    """A default as an operator would write it; sizes in binary units."""
    if field.default_factory is not None:
        return "user data folder"
    if field.default is False or field.default == ():
        return "off" if field.default is False else "none"
    if field.default is True:
        return "on"
    is_size = any(getattr(rule, "func", None) is parse_bytes for rule in field.metadata)
    return f"`{size_text(field.default)}`" if is_size else f"`{field.default}`"


def size_text(num_bytes: int) -> str:
    """2147483648 → 2GiB; a number that no unit divides stays one."""
    units = [(unit, scale) for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)) if num_bytes and num_bytes % scale == 0]
    return f"{num_bytes // units[0][1]}{units[0][0]}" if units else str(num_bytes)


def test_settings_table_is_the_settings_class() -> None:
    """Each setting stands in the README once, in order, with its default and sentence."""
    start = README.index("| Flag | Default | Meaning |")
    assert README[start:].split("\n\n", 1)[0] == settings_table()


def test_verbs_exist() -> None:
    """Every ``make`` verb that the documents name is in the Makefile, and the Makefile's verbs are in CONTRIBUTING.md."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.compile(r"\bmake ([a-z]+)(?=[` \n])")
    told = set(named.findall("\n".join(re.findall(r"```\w*\n.*?```|`[^`\n]+`", README + contributing, re.DOTALL))))
    verbs = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert told <= verbs
    assert verbs - {"help"} <= set(named.findall(contributing))


def test_files_exist() -> None:
    """Every relative link and picture leads somewhere."""
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
