"""Cold against warm: its words and scale, and the page in a real browser."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from console import cold_warm as view
from engine import ColdWarmOptions, ColdWarmState
from tests.console.conftest import served
from tests.console.scripted_cold_warm import ScriptedColdWarm

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Visit = Callable[..., Page]

OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('.cold-lane:not(.cold-head) > *')].map((el) => el.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return boxes.filter((a, i) => boxes.some((b, j) => j > i && meet(a, b))).length; }"""
BARS = """() => [...document.querySelectorAll('.cold-lane:not(.cold-head)')].map(
  (lane) => Math.max(...[...lane.querySelectorAll('.cold-bar')].map((el) => el.getBoundingClientRect().right)))"""


def finished(*, wrong: bool = False) -> ColdWarmState:
    """A whole scripted comparison."""
    comparison = ScriptedColdWarm(wrong=wrong)
    comparison.start(ColdWarmOptions(adapter="a", prompt_ids=(1, 2)))
    comparison.stop()
    return comparison.state


def test_the_sentence_is_made_from_the_medians() -> None:
    """Both numbers are medians of the lanes named; without the slow lanes the next slower is named, without any a question."""
    state = finished()
    assert view.headline(state) == "A pinned adapter answers in 12 ms. Starting its own replica takes 20.2 s."
    near = ColdWarmState(results=state.results[:3])
    assert view.headline(near) == "A pinned adapter answers in 12 ms. From disk it takes 72 ms."
    assert view.headline(ColdWarmState()) == "How long until the first token?"


def test_a_median_is_of_the_runs_that_count() -> None:
    """Not of those asked for: one lane a run ahead shows as a span, a comparison not begun as no number."""
    state = finished()
    runs = len(state.results[0].times_s)
    assert view.median_words(state) == f"median of {runs}"
    first = state.results[0]
    behind = dataclasses.replace(first, runs=first.runs[:-1])
    assert view.median_words(dataclasses.replace(state, results=(behind, *state.results[1:]))) == f"median of {runs - 1} to {runs}"
    assert view.median_words(ColdWarmState()) == "median"


def test_a_scale_holds_every_run_and_breaks_once() -> None:
    """Linear in both parts, no point outside, an interval across the break in two pieces that leave the break free."""
    scale = view.scale_of(finished())
    assert scale is not None
    assert scale.right_s is not None
    longest = max(s for result in finished().results for s in result.times_s)
    assert scale.at(longest) <= 1.0
    assert scale.at(scale.left_s / 2) == pytest.approx(view.LEFT_SHARE / 2)
    (_, first), (second, _) = scale.spans(0.0, longest)
    assert (first, second) == pytest.approx((view.LEFT_SHARE, view.LEFT_SHARE + view.BREAK_SHARE))
    shares = [share for share, _ in scale.ticks]
    assert shares == sorted(shares)
    assert view.scale_of(ColdWarmState()) is None


def test_what_went_wrong_is_said() -> None:
    """A start that did not hold, a warm page cache, other traffic and another text each show, with how many."""
    state = finished(wrong=True)
    words = {text: holds for holds, text in view.checks(state)}
    assert words["adapter is in the tier named, 39 of 40"] is False
    assert words["page cache of the image dropped, 0 of 10"] is False
    assert words["other requests ran beside 10 of 60 runs"] is False
    assert view.differences_words(state) == "Full replica, run 1, differs at token 24, and 9 more runs"
    assert view.page_cache_words(state.of("disk")) == "page cache warm"
    assert all(holds for holds, _ in view.checks(finished()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console whose comparisons go wrong where they can."""
    with served(tmp_path_factory.mktemp("console"), "wrong") as address:
        yield address


@pytest.mark.browser
@pytest.mark.parametrize(("size", "scheme"), [((1440, 900), "light"), ((1366, 768), "dark"), ((390, 844), "light")])
def test_the_page_shows_lanes_and_results(visit: Visit, site: str, size: tuple[int, int], scheme: str) -> None:
    """One press: six lanes with bars in order of their times, medians, ratios and faults; nothing overlaps; Reset empties them."""
    page = visit("/cold-warm", width=size[0], height=size[1], scheme=scheme)
    begin(page)
    httpx.get(f"{site}/poke/finish")
    page.get_by_text("10 of 10 runs").wait_for()
    assert page.locator("h1").inner_text() == "A pinned adapter answers in 12 ms. Starting its own replica takes 20.2 s."
    ends = page.evaluate(BARS)
    assert len(ends) == 6
    assert ends == sorted(ends)
    assert page.locator(".cold-ratio").all_inner_texts()[1:][0] == "1×"
    assert page.get_by_text("1 of 10 do not count").count() == 1
    assert page.get_by_text("differs at token 24").count() == 1
    assert page.get_by_text(re.compile("is back where it was: device, pinned")).count() == 1
    assert page.get_by_text("One replica's process held 1.07 GiB, measured.").count() == 1
    assert page.evaluate(OVERLAPS) == 0
    page.get_by_role("button", name=re.compile("Reset")).click()
    page.get_by_text("not measured yet").wait_for()
    assert page.locator(".cold-bar").count() == 0


@pytest.mark.browser
def test_a_page_that_leaves_stops_what_it_started(visit: Visit, site: str) -> None:
    """A visitor who only looked ends nothing by leaving; the one who pressed the button does."""
    page, looker = visit("/cold-warm"), visit("/cold-warm")
    begin(page)
    looker.get_by_text("Remote artifact, run 1 of 10").wait_for()
    looker.goto(f"{site}/adapters")
    looker.goto(f"{site}/cold-warm")
    looker.get_by_text("Remote artifact, run 1 of 10").wait_for()
    page.goto(f"{site}/adapters")
    looker.get_by_text("10 of 10 runs").wait_for()
    assert "stopped" in looker.locator(".cold-progress").inner_text()
    looker.get_by_role("button", name=re.compile("Reset")).click()
    looker.get_by_text("not measured yet").wait_for()


def begin(page: Page) -> None:
    """Press the button, and see that something runs."""
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()


@pytest.mark.browser
def test_the_navigation_leads_there_and_back(visit: Visit) -> None:
    """From the console by link and key; back by the close button."""
    page = visit("/")
    page.locator(".nav").get_by_text("Cold and warm").click()
    page.wait_for_url("**/cold-warm")
    assert page.locator(".nav").count() == 0
    page.get_by_label("Back to the console").click()
    page.wait_for_url(re.compile(r"/$"))
