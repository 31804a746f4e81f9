"""A table of small cells, paged by the server; only changed rows are sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nicegui.element import Element

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STATIC: Final = Path(__file__).resolve().parents[2] / "static"

Cell = list[Any]
"""Parts of one cell, each made by a function below; they become text and icons in the browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: ``width`` is a CSS track, ``cls`` is ``num`` for right-aligned numbers."""

    key: str
    label: str
    width: str
    cls: str = ""
    sort: bool = False
    title: str = ""


class Grid(Element, component=STATIC / "grid.js"):
    """Rows are dicts: ``id``, ``cells``, and optionally ``name`` (for the check box), ``cls`` and ``still`` (not clickable)."""

    def __init__(
        self, columns: Sequence[Column], *, label: str, empty: str = "", head: bool = True, selectable: bool = False, keys: bool = False
    ) -> None:
        super().__init__()
        self._rows: list[dict[str, Any]] = []
        with self._props.suspend_updates():
            self._props["columns"] = _props_of(columns)
            self._props.update({"rows": [], "label": label, "empty": empty, "head": head, "keys": keys})
            if selectable:
                self._props["selected"] = []

    def show(self, rows: list[dict[str, Any]]) -> None:
        """Show these rows; when only contents changed, just the changed rows travel."""
        before, self._rows = self._rows, rows
        if rows == before:
            return
        with self._props.suspend_updates():
            self._props["rows"] = rows
        if [row["id"] for row in rows] != [row["id"] for row in before]:
            self.update()
            return
        changed = {str(i): new for i, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new}
        self.run_method("patch", changed)

    def columns(self, columns: Sequence[Column]) -> None:
        """Show other columns."""
        self.assume(columns=_props_of(columns))

    def assume(self, **state: Any) -> None:  # noqa: ANN401 - component properties are JSON values
        """Set ``sort``, ``desc``, ``selected``, ``open`` or ``empty``."""
        for key, value in state.items():
            if self._props.get(key) != value:
                self._props[key] = value

    def when(self, event: str, handler: Callable[[Any], Any]) -> Grid:
        """Call ``handler`` with what the browser sent for ``sort``, ``open``, ``select`` or ``act``."""
        self.on(event, lambda e: handler(e.args))
        return self


def _props_of(columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [{"key": c.key, "label": c.label, "width": c.width, "cls": c.cls, "sort": c.sort, "title": c.title or None} for c in columns]


def words(value: str, cls: str = "") -> Cell:
    """A text part."""
    return ["t", value, cls] if cls else ["t", value]


def glyph(name: str, cls: str = "") -> Cell:
    """An icon part."""
    return ["i", name, cls]


def bar(parts: Sequence[tuple[str, float]], width_px: int) -> Cell:
    """A small stacked bar: (class, share) parts."""
    return ["bar", [[cls, round(share, 3)] for cls, share in parts], width_px]


def spark(path: str, width: int, height: int) -> Cell:
    """A sparkline part."""
    return ["spark", path, width, height]


def act(label: str, payload: str) -> Cell:
    """A link that sends ``payload``."""
    return ["act", label, payload]


def number(value: str, unit: str = "", cls: str = "") -> list[Cell]:
    """A number and its unit; the unit has a slot of fixed width, so that digits line up."""
    return [words(value, f"n {cls}".strip()), words(unit, "u")]


def heat(share: float, value: str, beside: str = "") -> Cell:
    """A value on a ground that is the stronger the larger its share, 0 to 1, and a second value beside it."""
    return ["heat", round(share, 2), value, beside]
