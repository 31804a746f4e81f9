"""Versions in a real browser: back in one click, refused with the report, retired with its count, and text that stays text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Visit = Callable[..., Page]

pytestmark = pytest.mark.browser


def test_back_in_one_click_and_forth_again(visit: Visit) -> None:
    """The price stands beside the button; one click moves the name, and the toast takes it back."""
    page = visit("/adapters?open=parcelwise/contracts-de&tab=versions")
    drawer = page.locator(".drawer")
    drawer.get_by_text("To version 1. Brought to device first").wait_for()
    drawer.get_by_role("button", name="Roll back").click()
    page.get_by_text("parcelwise/contracts-de is back at").wait_for()
    page.locator(".drawer-sub").get_by_text("version 1").wait_for()
    page.locator(".toast").get_by_role("button", name=re.compile("Undo")).click()
    page.locator(".drawer-sub").get_by_text("version 2").wait_for()
    drawer.get_by_role("tab", name="Audit").click()
    drawer.get_by_text("taken back").wait_for()
    assert "tab=audit" in page.url


def test_a_refused_move_shows_why_and_the_report(visit: Visit) -> None:
    """409 with its code, the version's checks below it, and no button."""
    page = visit("/adapters?open=meridian/huge-archive&tab=versions")
    page.locator(".version").nth(1).get_by_text("Move here…").click()
    dialog = page.get_by_role("dialog", name="Move")
    dialog.get_by_text("Not moved").wait_for()
    assert "quarantined" in dialog.inner_text()
    assert "The report of version 3" in dialog.inner_text()
    assert dialog.locator(".gate-line").count() == 6
    assert dialog.get_by_role("button", name="Move", exact=True).is_disabled()


def test_a_canary_is_promoted(visit: Visit) -> None:
    """A share first, then all."""
    page = visit("/adapters?open=clinica/discharge-note&tab=versions")
    page.locator(".version").get_by_text("Canary…").first.click()
    page.locator(".dialog").get_by_role("radio", name="25 %").click()
    page.locator(".dialog").get_by_text("Send 25 % of clinica/discharge-note").wait_for()
    page.locator(".dialog").get_by_role("button", name="Start canary").click()
    page.locator(".alias-card").get_by_text("25 %").wait_for()
    page.locator(".alias-card").get_by_text("Promote…").click()
    page.locator(".dialog").get_by_role("button", name="Promote", exact=True).click()
    page.locator(".alias-card").get_by_text("25 %").wait_for(state="hidden")


def test_what_is_retired_drains_and_says_so(visit: Visit) -> None:
    """The dialog names what goes; then count and time stand in the drawer and in the row."""
    page = visit("/adapters?open=oakridge/returns&tab=versions")
    page.locator(".version").first.get_by_text("Retire…").click()
    dialog = page.locator(".dialog")
    dialog.get_by_text("oakridge/returns goes with it").wait_for()
    dialog.get_by_text("3 running requests end first, at most 12 s").wait_for()
    dialog.get_by_role("button", name="Retire", exact=True).click()
    page.locator(".drain").get_by_text("Draining: 3 requests end first, at most 12 s.").wait_for()
    page.locator(".body .c-state").get_by_text("draining 3").wait_for()


def test_an_archive_is_deleted_by_name_and_says_so(visit: Visit) -> None:
    """What is lost is said before; it takes the name and a reason; then it cannot be restored, and the list says so."""
    page = visit("/adapters?view=retired")
    page.locator(".stored .body .row").first.click()
    drawer = page.locator(".drawer")
    drawer.get_by_role("tab", name="Versions").click()
    drawer.get_by_text("Archive…").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Archive", exact=True).click()
    drawer.get_by_text("Delete archive…").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_text("it can never be restored").wait_for()
    doing = dialog.get_by_role("button", name="Delete archive")
    dialog.get_by_label("Reason").fill("no room")
    assert doing.is_disabled()
    dialog.get_by_label("Its name").fill(dialog.locator(".typed-label .code").inner_text())
    doing.click()
    drawer.get_by_text("cannot be restored").wait_for()
    assert drawer.get_by_text("Delete archive…").count() == 0
    page.locator(".stored .body .row").get_by_text("its archive was deleted: no room").wait_for()


def test_what_was_rejected_is_listed_with_its_reason_as_text(visit: Visit) -> None:
    """D14: a refusal with markup in it is read, not run; a row opens the report, failed check and all."""
    page = visit("/adapters?view=rejected")
    row = page.locator(".stored .body .row").first
    row.get_by_text("<img src=x").wait_for()
    row.click()
    drawer = page.locator(".drawer")
    drawer.get_by_text("[2048, 16]").wait_for()
    assert drawer.get_by_text("not reached").count() == 5
    assert page.locator(".stored img, .drawer img").count() == 0
    assert "owned" not in page.title()


def test_one_tenant_at_a_time(visit: Visit) -> None:
    """The chip lists tenants with their counts, and the address keeps the choice."""
    page = visit("/adapters")
    page.locator(".tenant-chip").click()
    page.get_by_role("option", name=re.compile("^quillpad")).click()
    page.wait_for_url("**tenant=quillpad*")
    page.get_by_text(re.compile(r"1–\d of \d$")).wait_for()
    assert all(name.startswith("quillpad/") for name in page.locator(".live .body .c-alias").all_inner_texts())
