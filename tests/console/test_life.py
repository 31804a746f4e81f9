"""Sessions: what one operator does stays theirs, what closes is gone, what drops comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.console.conftest import served, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

NUM_TABS = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console that forgets a closed page after eight seconds."""
    with served(tmp_path_factory.mktemp("console"), "brief") as address:
        yield address


def clients(site: str) -> int:
    """Server-side clients now."""
    return int(httpx.get(f"{site}/poke/clients").json())


def test_two_sessions_share_nothing(visit: Callable[..., Page]) -> None:
    """C05: a filter, ticks and a dialog of one are not seen by the other, in the page or in its socket frames."""
    frames: list[str] = []
    mine, theirs = visit("/adapters"), visit("/adapters")
    theirs.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(str(data))))
    theirs.reload()
    theirs.wait_for_selector(".body .row")
    mine.get_by_label("Filter adapters").fill("secret-word")
    mine.get_by_text("No adapter fits this view and filter.").wait_for()
    mine.get_by_role("button", name="Register…").click()
    mine.get_by_label("Folder").fill("/secret/place")
    theirs.wait_for_timeout(1500)
    assert theirs.get_by_label("Filter adapters").input_value() == ""
    assert theirs.locator(".body .row").count() == 25
    assert theirs.get_by_role("dialog").count() == 0
    assert not any("secret" in frame for frame in frames)


def test_closed_pages_are_gone(visit: Callable[..., Page], chromium: Browser, site: str) -> None:
    """C04: six tabs opened and closed leave no client behind that the sampler would feed."""
    wait_for(lambda: clients(site) == 0, 90)
    context = chromium.new_context()
    for _ in range(NUM_TABS):
        page = context.new_page()
        page.goto(site)
        page.wait_for_function("window.did_handshake === true")
    assert clients(site) >= NUM_TABS
    context.close()
    wait_for(lambda: clients(site) == 0, 90)


def test_a_dropped_socket_keeps_what_was_typed(visit: Callable[..., Page], site: str) -> None:
    """C01: three cuts, a notice each time, no reload, one client, the form as it was."""
    page = visit("/adapters")
    page.get_by_role("button", name="Register…").click()
    page.get_by_label("Folder").fill("/data/half-typed")
    page.evaluate("window.sameDocument = true")
    before = clients(site)
    for _ in range(3):
        page.evaluate("window.socket.io.engine.close()")
        page.locator("#lost-banner").wait_for()
        page.locator("#lost-banner").wait_for(state="hidden")
    assert page.evaluate("window.sameDocument") is True
    assert page.get_by_label("Folder").input_value() == "/data/half-typed"
    page.get_by_role("button", name="Check").click()
    page.get_by_text("match the base").wait_for()
    assert clients(site) == before
