"""A base upgrade in a real browser: names that cannot serve are looked at, then registered again by one operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.conftest import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Visit = Callable[..., Page]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with a past: three names lead to versions of the base before."""
    with served(tmp_path_factory.mktemp("upgrade"), "past") as address:
        yield address


def test_names_of_another_base_are_looked_at_and_applied(visit: Visit) -> None:
    """Each name says how it would come or why not; Apply is an operation whose end is said, and whose rows lie under Operations."""
    page = visit("/settings?part=bases")
    page.get_by_text("3 aliases of another base cannot serve.").wait_for()
    page.get_by_role("button", name="Register again…").click()
    dialog = page.get_by_role("dialog", name="Register again")
    assert dialog.get_by_role("button", name="Apply").is_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    dialog.locator(".dry-run .body .row").first.wait_for()
    expect(dialog.locator(".dry-sums")).to_have_text(re.compile(r"^\s*24 declared\s*6 rejected\s*$"))
    dialog.get_by_role("radio", name="Declare it compatible").click()
    assert dialog.get_by_role("button", name="Apply").is_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Apply 30 names").click()
    page.get_by_text("24 rows taken in, 6 rejected.").wait_for()
    page.get_by_role("link", name="See rows").click()
    page.wait_for_url("**/operations?open=*")
    page.locator(".drawer").get_by_text("Base upgrade to bbbbbbbb").wait_for()
