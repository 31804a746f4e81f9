"""Registering many in a real browser: looked at first, then one operation that is followed, stopped and carried on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Visit = Callable[..., Page]

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def manifest(number: int) -> str:
    """Rows of which every fifth is refused, and one whose alias is markup."""
    rows = [f"/data/{'bad' if row % 5 == 4 else 'good'}-{row},acme/line-{row}" for row in range(number)]
    return "\n".join(["source,alias", *rows, f'/data/x,"{EVIL.replace(chr(34), chr(34) * 2)}"'])


def dry_run(page: Page, rows: str) -> None:
    """Open the dialog, paste, look."""
    page.get_by_role("button", name="Register…").click()
    page.get_by_role("radio", name="Manifest").click()
    page.get_by_role("textbox", name="Rows").fill(rows)
    page.get_by_role("button", name="Dry run").click()
    page.locator(".dry-run .body .row").first.wait_for()


def test_a_manifest_is_looked_at_and_applied_to_its_end(visit: Visit) -> None:
    """The dry run counts and says why not; Apply becomes an operation whose toast ends, and whose rows lie under Operations."""
    page = visit("/adapters")
    dry_run(page, manifest(39))
    sums = page.locator(".dry-sums")
    expect(sums).to_have_text(re.compile(r"^\s*32 new\s*8 rejected\s*$"))  # of all, not of the page
    page.get_by_label("Next rows").click()
    page.get_by_text("rows 21–40 of 40").wait_for()
    expect(sums).to_have_text(re.compile(r"^\s*32 new\s*8 rejected\s*$"))
    page.get_by_role("button", name="Apply 40 rows").click()
    page.get_by_text("32 rows taken in, 8 rejected.").wait_for()
    page.get_by_role("link", name="See rows").click()
    page.wait_for_url("**/operations?open=*")
    drawer = page.locator(".drawer")
    drawer.get_by_role("button", name=re.compile("^Rejected")).click()
    drawer.get_by_text("1–8 of 8").wait_for()
    assert "shape_mismatch" in drawer.inner_text()
    with page.expect_download() as download:
        drawer.get_by_role("button", name="Errors as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [row["row"] for row in rows] == [str(number) for number in (5, 10, 15, 20, 25, 30, 35, 40)]
    assert rows[0]["name"] == "acme/line-4"


def test_many_rows_are_counted_when_asked(visit: Visit) -> None:
    """Of more than two hundred the sum says of how many it is, until all are asked for."""
    page = visit("/adapters")
    dry_run(page, manifest(299))
    sums = page.locator(".dry-sums")
    expect(sums).to_have_text(re.compile(r"16 new\s*4 rejected\s*of the first 20\s*Count all"))
    sums.get_by_role("button", name="Count all").click()
    expect(sums).to_have_text(re.compile(r"^\s*240 new\s*60 rejected\s*$"))


def test_what_a_manifest_says_is_text(visit: Visit) -> None:
    """D14: an alias with markup in it is shown, refused and not run, in the dry run and among the rows."""
    page = visit("/adapters")
    dry_run(page, manifest(1))
    assert EVIL in page.locator(".dry-run").inner_text()
    page.get_by_role("button", name=re.compile("^Apply")).click()
    page.get_by_text("1 row taken in, 1 rejected.").wait_for()
    page.get_by_role("link", name="See rows").click()
    page.locator(".op-rows .body .row").first.wait_for()
    assert page.locator(".drawer img, .dry-run img").count() == 0
    assert "owned" not in page.title()


def test_an_operation_outlives_its_page(visit: Visit) -> None:
    """Cancelled it stops; another page finds it as it stands, and carries it on to its end."""
    page = visit("/adapters")
    dry_run(page, manifest(199))
    page.get_by_role("button", name="Apply 200 rows").click()
    page.locator(".toast.operation").get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile(r"^Cancelled: \d+ rows")).wait_for()
    other = visit("/operations")
    other.locator(".operations .body .row").first.click()
    drawer = other.locator(".drawer")
    drawer.get_by_role("button", name="Resume").click()
    drawer.get_by_text("160 rows taken in, 40 rejected.").wait_for()
    other.reload()
    other.locator(".drawer").get_by_role("button", name="Retry rejected").wait_for()


def test_an_archive_is_kept_under_a_name_of_ours(visit: Visit, tmp_path_factory: pytest.TempPathFactory) -> None:
    """D14: what the file is called is shown and never becomes a path."""
    page = visit("/adapters")
    page.get_by_role("button", name="Register…").click()
    page.get_by_role("radio", name="Upload").click()
    page.locator(".drop input[type=file]").first.set_input_files(
        {"name": "..\\..\\evil.zip", "mimeType": "application/zip", "buffer": b"PK\x05\x06" + bytes(18)}
    )
    page.get_by_text(re.compile(r"evil\.zip, ")).wait_for()
    kept = sorted(path.name for path in tmp_path_factory.getbasetemp().glob("console*/staging/*"))
    assert kept
    assert all(re.fullmatch(r"[0-9a-f]{32}\.zip", name) for name in kept)
