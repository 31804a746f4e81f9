"""The line under the header of every page but the overview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.memory import on_demand_bytes
from console.verdict import LONG_WAIT_S
from console.widgets.elements import box, drawing, icon_svg, say, text
from console.widgets.memory_bar import memory_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.live import Live
    from engine import EngineSnapshot


def status_strip(live: Live) -> None:
    """Memory, running, waiting, speed, first token, cold starts, errors."""
    with box("strip").props('aria-label="Status"'):
        memory_bar(live, bracket=False)
        _fact(live, lambda s: (fmt.size(s.memory.free_bytes), "free,", False))
        _fact(live, lambda s: (fmt.size(on_demand_bytes(s.memory)), "on demand", False))
        _fact(live, lambda s: (fmt.count(len(s.requests.running)), "running", False))
        _fact(live, _waiting)
        _fact(live, lambda s: (fmt.rate(s.rates.output_tokens_per_s), "tok/s", False))
        _fact(live, lambda s: (fmt.latency_text(s.rates.ttft_p95_s), "TTFT p95", False))
        _fact(live, lambda s: (fmt.rate(s.rates.cold_starts_per_min), "cold starts/min", False))
        _fact(live, lambda s: (fmt.count(s.rates.errors), "errors", s.rates.errors > 0))


def _waiting(snapshot: EngineSnapshot) -> tuple[str, str, bool]:
    rows = snapshot.requests.waiting
    return fmt.count(len(rows)), "waiting", any(row.waited_s > LONG_WAIT_S for row in rows)


def _fact(live: Live, read: Callable[[EngineSnapshot], tuple[str, str, bool]]) -> None:
    with box("fact"):
        mark = drawing("", "ico", "span")
        value = text("", "value")
        word = text("")

    def update() -> None:
        amount, label, warns = read(live.feed.snapshot)
        mark.content = icon_svg("warn", "warn") if warns else ""
        say(value, amount)
        say(word, label)

    live.every(update)
