"""The page for 3 a.m.: how things are, where the memory is, who waits and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console import format as fmt
from console import theme
from console.actions import Actions
from console.feed import kv_share
from console.verdict import LONG_WAIT_S, verdict
from console.visitor import Visitor
from console.widgets.change_list import change_card
from console.widgets.elements import box, drawing, icon_svg, say, text
from console.widgets.memory_bar import memory_card
from console.widgets.request_table import request_card
from console.widgets.tenant_table import tenant_card
from console.widgets.tile import Reading, tile
from console.widgets.time_chart import time_card

if TYPE_CHECKING:
    from console.feed import Feed
    from console.live import Live
    from engine import Engine, EngineSnapshot

ADAPTER_REASONS: Final = frozenset({"adapter_loading", "adapter_pages"})


def overview_page(feed: Feed, engine: Engine) -> None:
    """Everything on one screen."""
    with theme.frame("Overview", feed, Visitor(engine).caller) as shell:
        live = shell.live
        verdict_card(live)
        memory_card(live)
        with box("tiles"):
            tiles(live)
        with box("columns"):
            with box("left"):
                tenant_card(live)
                request_card(live)
            with box("right"):
                time_card(live)
                change_card(live, Actions(engine, shell.toasts, feed))


def verdict_card(live: Live) -> None:
    """One sentence and its reason."""
    with box("card verdict", "section").props('aria-label="Verdict" aria-live=polite') as card:
        mark = drawing("", "ico big-ico", "span")
        with box("verdict-words"):
            sentence = text("", "sentence", "h2")
            reason = text("", "reason", "p")
        with box("btn plain", "a").props("href=#requests") as see:
            text("See the requests")

    def update() -> None:
        now = verdict(live.feed.snapshot)
        mark.content = icon_svg(now.level, now.level)
        say(sentence, fmt.unbroken(now.sentence))
        say(reason, fmt.unbroken(now.reason))
        for level in ("warn", "crit"):
            card.classes(add=f"is-{level}" if now.level == level else "", remove="" if now.level == level else f"is-{level}")
        see.set_visibility(now.level == "warn" and bool(live.feed.snapshot.requests.waiting))

    live.every(update)


def tiles(live: Live) -> None:
    """Eight numbers, in the order of the field's dashboards."""
    tile(live, "Requests", "requests", _requests, "Requests finished per second over the last minute, and how many")
    tile(live, "Output", "output", _output, "Tokens generated per second over the last minute, and prompt tokens read")
    tile(live, "TTFT p95", "ttft", _ttft, "Time to the first token, 95th percentile of the last minute")
    tile(live, "ITL p95", "itl", _itl, "Gap between two tokens, 95th percentile of the last minute")
    tile(live, "Waiting", "waiting", _waiting, "Requests that wait now, and how many of them for an adapter")
    tile(live, "KV in use", "kv", _kv, "Keys and values of running requests, as a share of the arena")
    tile(
        live,
        "Adapter hits",
        "hits",
        _hits,
        "Adapter requests of the last minute that found their adapter on the device, and cold starts per minute",
    )
    tile(live, "Errors", "errors", _errors, "Requests of the last minute that ended with an error")


def _requests(s: EngineSnapshot) -> Reading:
    return Reading(value=fmt.rate(s.rates.requests_per_s), unit="/s", beside=f"{s.rates.requests:,}")


def _output(s: EngineSnapshot) -> Reading:
    return Reading(value=fmt.rate(s.rates.output_tokens_per_s), unit="tok/s", beside=f"in {fmt.rate(s.rates.prompt_tokens_per_s)}")


def _ttft(s: EngineSnapshot) -> Reading:
    value, unit = fmt.latency(s.rates.ttft_p95_s)
    return Reading(value=value, unit=unit, beside=beside_p50(s.rates.ttft_p50_s, unit) if unit else "no traffic")


def _itl(s: EngineSnapshot) -> Reading:
    value, unit = fmt.latency(s.rates.itl_p95_s)
    return Reading(value=value, unit=unit, beside=beside_p50(s.rates.itl_p50_s, unit) if unit else "no traffic")


def beside_p50(seconds: float | None, unit: str) -> str:
    """The median beside a percentile, in its unit, which it therefore does not name."""
    number, own_unit = fmt.latency(seconds)
    return f"p50 {seconds:.2f}" if seconds is not None and (unit, own_unit) == ("s", "ms") else f"p50 {number}"


def _waiting(s: EngineSnapshot) -> Reading:
    rows = s.requests.waiting
    adapter = sum(row.reason in ADAPTER_REASONS for row in rows)
    beside = f"{adapter:,} adapter" if adapter else f"{len(s.requests.running):,} running"
    return Reading(value=fmt.count(len(rows)), beside=beside, warns=any(row.waited_s > LONG_WAIT_S for row in rows))


def _kv(s: EngineSnapshot) -> Reading:
    share = kv_share(s)
    return Reading(value=fmt.percent(share), unit="" if share is None else "%", beside="of arena")


def _hits(s: EngineSnapshot) -> Reading:
    if s.rates.hit_rate is None:
        return Reading(value=fmt.DASH, beside="no traffic")
    return Reading(value=fmt.percent(s.rates.hit_rate), unit="%", beside=f"{fmt.count(s.rates.cold_starts_per_min)} cold")


def _errors(s: EngineSnapshot) -> Reading:
    return Reading(value=fmt.count(s.rates.errors), beside=f"of {s.rates.requests:,}", warns=s.rates.errors > 0)
