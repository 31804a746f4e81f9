"""A figure of the bench, and how figures are told: a table for people, one JSON object for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

How = Literal["measured", "computed", "simulated"]
Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number and where it comes from."""

    key: str
    """Its place in the JSON; a dot goes one level down."""
    label: str
    """What the table calls it."""
    value: Value
    """None is not known: not asked for, or nothing to measure."""
    unit: str = ""
    spread: tuple[float, float] | None = None
    """Smallest and largest of what ``value`` is the median of."""
    how: How = "measured"
    """``measured``: timed or counted in this run, or a ratio of such. ``computed``: arithmetic beyond what ran, or given.
    ``simulated``: counted or timed on a simulated clock."""


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient; None when a side is not known or nothing was below."""
    return None if above is None or not below else above / below


def table(title: str, figures: Iterable[Figure]) -> str:
    """Lines of label, value, range, and how it is known."""
    rows = [(figure.label, _text(figure.value), figure.unit, _range(figure.spread), _how(figure)) for figure in figures]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(5)]
    lines = [
        f"  {label:<{widths[0]}}  {value:>{widths[1]}} {unit:<{widths[2]}}  {spread:<{widths[3]}}  {how}"
        for label, value, unit, spread, how in rows
    ]
    return "\n".join([title, *lines])


def as_json(figures: Sequence[Figure]) -> dict[str, object]:
    """Values nested by key, and beside them ``how`` and ``spread`` by the whole key."""
    tree: dict[str, object] = {}
    for figure in figures:
        _place(tree, figure.key.split("."), figure.value)
    tree["how"] = {figure.key: figure.how for figure in figures}
    tree["spread"] = {figure.key: list(figure.spread) for figure in figures if figure.spread is not None}
    return tree


def _place(tree: dict[str, object], path: Sequence[str], value: Value) -> None:
    *branches, leaf = path
    for branch in branches:
        below = tree.setdefault(branch, {})
        assert isinstance(below, dict), f"{branch} is a figure and a group"
        tree = below
    tree[leaf] = value


def _text(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _how(figure: Figure) -> str:
    return "" if figure.value is None else figure.how


def _range(spread: tuple[float, float] | None) -> str:
    return "" if spread is None else f"{_text(float(spread[0]))} – {_text(float(spread[1]))}"
