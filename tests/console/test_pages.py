"""The console in a real browser: what is drawn, asked, refused and taken back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.pictures.checks import faint, faults

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Visit = Callable[..., Page]

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}
PIECES = """box => {
  const outer = box.getBoundingClientRect(), inner = [...box.children].map(piece => piece.getBoundingClientRect());
  const seen = inner.filter(piece => piece.top < outer.bottom && piece.left < outer.right);
  return [seen.length, seen.filter(piece => piece.right <= outer.right + 0.5 && piece.bottom <= outer.bottom + 0.5).length];
}"""
WIDTHS = r"""() => Object.fromEntries([...document.querySelectorAll('.membar .part')].map(
  (el) => [el.className.match(/p-(\w+)/)[1], el.getBoundingClientRect().width]))"""


@pytest.mark.parametrize(
    "path", ["/", "/tenants?open=default", "/audit", "/settings", "/adapters", "/operations", "/playground", "/cold-warm"]
)
@pytest.mark.parametrize(("size", "scheme"), [((1440, 900), "dark"), ((1366, 768), "light"), ((390, 844), "dark")])
def test_every_page_renders_in_its_width(visit: Visit, path: str, size: tuple[int, int], scheme: str) -> None:
    """No script error; nothing beyond an edge, faint in either theme, without a name or out of Tab's reach; one heading."""
    page = visit(path, width=size[0], height=size[1], scheme=scheme)
    assert page.locator("h1").count() == 1
    page.keyboard.press("Tab")
    assert "Skip" in page.evaluate("document.activeElement.textContent")
    assert faults(page) == []
    other = "light" if scheme == "dark" else "dark"
    page.emulate_media(color_scheme=other)
    page.wait_for_function(f"document.body.classList.contains('body--{other}')")
    assert faint(page) == []


def test_rows_open_by_keyboard(visit: Visit) -> None:
    """One row of a table takes the Tab key; an arrow leads to the next, and Enter opens it."""
    page = visit("/tenants")
    rows = page.locator(".tenant-list .body .row")
    rows.nth(1).wait_for()
    assert page.locator(".tenant-list .row[tabindex='0']").count() == 1
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.activeElement === document.querySelectorAll('.tenant-list .body .row')[1]")
    page.keyboard.press("Enter")
    page.locator(".tenant-list .body .row.opened").wait_for()
    assert page.evaluate("document.activeElement.classList.contains('opened')")


def test_html_and_headers(site: str) -> None:
    """Pages are light, and carry the headers that keep other sites out."""
    for path in ("/", "/adapters?size=50", "/playground", "/cold-warm"):
        answer = httpx.get(site + path)
        assert len(answer.content) <= 100_000, path
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_foreign_page_gets_no_socket(site: str) -> None:
    """The socket serves the console's own pages only."""
    path = f"{site}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert httpx.get(path, headers={"Origin": "https://elsewhere.example"}).status_code == 403
    assert httpx.get(path, headers={"Origin": site}).status_code != 403


def test_the_first_screen_needs_no_scroll(visit: Visit) -> None:
    """Verdict, memory and tiles at 1366 by 768, local banner included."""
    page = visit("/", width=1366, height=768)
    for part in (".verdict", ".memory", ".tiles"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 768


def test_the_memory_parts_are_drawn_to_scale(visit: Visit) -> None:
    """Widths in the bar are shares of the bytes, and the mark says that they add up."""
    page = visit("/")
    widths = page.evaluate(WIDTHS)
    assert widths["base"] / widths["kv_reserved"] == pytest.approx(14.96 / 8, rel=0.05)
    assert "adds up" in page.locator(".entry.total").inner_text()


@pytest.mark.parametrize(("width", "pieces"), [(600, 3), (290, 2), (150, 1)])
def test_a_caption_without_room_is_shorter_and_not_cut(visit: Visit, width: int, pieces: int) -> None:
    """Over an arena of so many pixels as many pieces of its caption are seen, each whole."""
    page = visit("/")
    page.locator(".memory .group.arena").evaluate(f"group => group.style.flex = '0 0 {width}px'")
    inside, whole = page.locator(".group.arena .pieces").evaluate(PIECES)
    assert (inside, whole) == (pieces, pieces)


def test_a_leak_in_the_ledger_shows(visit: Visit, site: str) -> None:
    """The mark turns when the parts no longer explain the total."""
    page = visit("/")
    httpx.get(f"{site}/poke/mismatch")
    try:
        page.get_by_text("3 MiB unexplained").wait_for()
    finally:
        httpx.get(f"{site}/poke/whole")


def test_filter_page_and_address(visit: Visit) -> None:
    """A filter narrows, the address says so, and brings it back; a duplicated tab has its own (C10)."""
    page = visit("/adapters")
    assert page.locator(".pager").inner_text().startswith("1–25 of 60")
    page.get_by_label("Next page").click()
    page.get_by_text("26–50 of 60").wait_for()
    assert "page=2" in page.url
    page.keyboard.press("/")
    page.keyboard.type("tenant:meridian")
    page.get_by_text(re.compile(r"1–\d of \d$")).wait_for()
    page.wait_for_url("**q=tenant%3Ameridian**")
    assert all(name.startswith("meridian/") for name in page.locator(".body .c-alias").all_inner_texts())
    page.reload()
    page.wait_for_selector(".body .row")
    assert page.get_by_label("Filter adapters").input_value() == "tenant:meridian"
    page.get_by_role("button", name="Rank").click()
    page.wait_for_url("**sort=-rank**")
    ranks = [int(text) for text in page.locator(".body .c-rank").all_inner_texts()]
    assert ranks == sorted(ranks, reverse=True)
    twin = page.context.new_page()
    twin.goto(page.url)
    twin.wait_for_selector(".body .row")
    twin.get_by_label("Filter adapters").fill("tenant:novacart")
    twin.wait_for_url("**q=tenant%3Anovacart**")
    assert page.get_by_label("Filter adapters").input_value() == "tenant:meridian"
    page.get_by_role("button", name="Rank").click()  # of what this tab shows
    page.wait_for_url(lambda url: "sort=-rank" not in url)
    assert "q=tenant%3Ameridian" in page.url
    assert all(name.startswith("meridian/") for name in page.locator(".body .c-alias").all_inner_texts())


def test_a_pin_that_would_not_fit_shows_the_sum(visit: Visit) -> None:
    """The refusal stands where the preview would, with its arithmetic, and the button is off."""
    page = visit("/adapters?open=meridian/huge-archive")
    drawer = page.locator(".drawer")
    drawer.locator(".refusal .ledger-line.sum").wait_for()
    sums = drawer.locator(".ledger").inner_text().split("\n")
    assert {"Arena", "Pinned after", "KV floor", "Left", "Needed", "33", "160"} <= set(sums)
    assert drawer.get_by_role("button", name=re.compile("^Pin for")).is_disabled()


def test_a_pin_can_be_taken_back(visit: Visit, site: str) -> None:
    """Preview, pin, toast, undo: the engine is asked for a pin and then for an unpin."""
    page = visit("/adapters?open=clinica/discharge-note")
    page.get_by_text("Free after").wait_for()
    page.get_by_role("button", name="Pin for 8 h").click()
    page.get_by_text("Pinned clinica/discharge-note until").wait_for()
    page.get_by_role("button", name="Unpin").wait_for()
    page.get_by_role("button", name=re.compile("Undo")).click()
    page.get_by_role("button", name="Pin for 8 h").wait_for()
    assert [verb for verb, _ in httpx.get(f"{site}/poke/calls").json()][-2:] == ["pin", "unpin"]


def test_evict_says_what_it_would_do(visit: Visit, site: str) -> None:
    """Ticked rows, a bulk bar, a dialog with effects; nothing happens before the button."""
    page = visit("/adapters?facets=device&sort=alias")
    before = len(httpx.get(f"{site}/poke/calls").json())
    page.get_by_label("Select meridian/quote-mail", exact=True).click()
    page.locator(".bulk").get_by_role("button", name="Evict…").click()
    dialog = page.get_by_role("dialog", name="Evict meridian/quote-mail")
    dialog.get_by_text("The next request for each of them is a cold start.").wait_for()
    assert len(httpx.get(f"{site}/poke/calls").json()) == before
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="hidden")


def test_what_is_pinned_is_not_evicted_and_the_dialog_says_so(visit: Visit, site: str) -> None:
    """One pinned adapter: the refusal and no button. Two with one pinned: the reason, and the button takes one."""
    page = visit("/adapters?facets=pinned&sort=alias")
    page.get_by_label("Select novacart/product-copy", exact=True).click()
    page.locator(".bulk").get_by_role("button", name="Evict…").click()
    dialog = page.locator(".dialog")
    dialog.get_by_text("It is pinned; end the pin first.").wait_for()
    assert dialog.get_by_role("button", name="Evict novacart/product-copy").is_disabled()
    page = visit("/adapters?facets=device&sort=alias")
    page.get_by_label("Select meridian/quote-mail", exact=True).click()
    page.get_by_label("Select novacart/product-copy", exact=True).click()
    page.locator(".bulk").get_by_role("button", name="Evict…").click()
    page.get_by_text("Not novacart/product-copy.").wait_for()
    page.get_by_role("button", name="Evict 1 of 2 adapters").click()
    page.get_by_text("Evicted meridian/quote-mail").wait_for()
    assert [verb for verb, _ in httpx.get(f"{site}/poke/calls").json()][-1] == "evict"


def test_register_checks_before_it_accepts(visit: Visit) -> None:
    """A bad folder shows tensor, expected and found; a good one its report, and only then can it be registered."""
    page = visit("/adapters")
    page.get_by_role("button", name="Register…").click()
    accept = page.locator(".dialog").get_by_role("button", name="Register")
    assert accept.is_disabled()
    page.get_by_label("Folder").fill("/data/bad")
    page.get_by_label("Alias", exact=True).fill("acme/new")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("[2048, 16]").wait_for()
    page.get_by_label("Folder").fill("/data/good")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("match the base").wait_for()
    accept.click()
    page.get_by_text("Registered acme/new as").wait_for()
    page.get_by_text("1–25 of 61").wait_for()


def test_metadata_is_text(visit: Visit) -> None:
    """A warning with markup in it is read, not run."""
    page = visit("/adapters?open=halden-legal/search-intent")
    page.get_by_text('<img src=x onerror="document.title').wait_for()
    assert page.locator(".drawer img").count() == 0
    assert "owned" not in page.title()


def test_keys(visit: Visit) -> None:
    """Rows by j and k, Enter opens, Esc closes, t turns the theme, ? lists the keys, g p leaves."""
    page = visit("/adapters")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator(".body .row.cursor").count() == 1
    page.keyboard.press("Enter")
    page.locator(".drawer").wait_for()
    page.keyboard.press("Escape")
    page.locator(".drawer").wait_for(state="hidden")
    page.keyboard.press("t")
    page.wait_for_selector("body.body--light")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/playground")


def test_a_batch_runs_and_equals_its_lanes_alone(visit: Visit) -> None:
    """Eight lanes stream side by side, share steps, and say the same alone."""
    page = visit("/playground")
    page.get_by_label("max tokens").fill("24")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop Esc").wait_for()
    page.get_by_role("button", name="Run").wait_for()
    assert all(page.locator(".lane-list .tail").all_inner_texts())
    assert page.locator(".steps-scroll rect.c-decode").count() >= 8
    page.get_by_role("button", name="Measure one at a time").click()
    page.get_by_text("8 of 8 finished lanes equal to running alone").wait_for(timeout=20_000)
    assert page.locator(".sums").inner_text().count("×") == 1


def test_a_lane_shows_the_version_that_answered(visit: Visit, site: str) -> None:
    """A name with a canary: the lane has the canary's digest and says so, and running alone means the same version."""
    page = visit("/playground")
    lanes = page.locator(".lane-list .lane")
    first, second, *_ = page.locator(".lane-name").all_text_contents()
    digest = lanes.nth(1).locator(".code").inner_text()
    assert lanes.nth(0).locator(".code").inner_text() != digest
    httpx.get(f"{site}/poke/canary", params={"of": first, "to": second})
    page.get_by_label("max tokens").fill("12")
    page.get_by_role("button", name="Run").click()
    lanes.nth(0).get_by_text("canary").wait_for()
    assert lanes.nth(0).locator(".code").inner_text() == digest
    assert page.locator(".lane-list").get_by_text("canary").count() == 1
    httpx.get(f"{site}/poke/canary", params={"of": first, "to": ""})
    page.get_by_role("button", name="Measure one at a time").click()
    page.get_by_text("8 of 8 finished lanes equal to running alone").wait_for(timeout=20_000)


def test_a_batch_stops_with_escape(visit: Visit) -> None:
    """What was cancelled says so."""
    page = visit("/playground")
    page.get_by_label("max tokens").fill("2000")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop Esc").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("cancelled").first.wait_for()
