"""One number with its comparison and its last fifteen minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console.widgets.elements import box, drawing, icon_svg, say, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.live import Live
    from engine import EngineSnapshot

SPARK: Final = (118, 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tile says: the number, its unit, one comparison, and whether it deserves a warning."""

    value: str
    unit: str = ""
    beside: str = ""
    warns: bool = False


def tile(live: Live, label: str, series: str, read: Callable[[EngineSnapshot], Reading], hover: str) -> None:
    """A tile; ``series`` names the ring whose line it draws."""
    width, height = SPARK
    with box(f"tile t-{series}") as card:
        card.props["title"] = hover
        with box("tile-head"):
            text(label, "label")
            beside = text("", "beside")
        with box("tile-body"):
            with box("tile-value"):
                value = text("", "big")
                unit = text("", "unit")
                mark = drawing("", "ico", "span")
            line = drawing("", "line")

    def update() -> None:
        reading = read(live.feed.snapshot)
        say(value, reading.value)
        say(unit, reading.unit)
        say(beside, reading.beside)
        mark.content = icon_svg("warn", "warn") if reading.warns else ""
        path = live.feed.spark(series, width, height)
        line.content = (
            f'<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="xMaxYMid" aria-hidden="true"><path d="{path}"/></svg>'
            if path
            else ""
        )

    live.every(update)
