"""The audit log on its page: filtered, read field by field, taken back, exported."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from console.audit_summary import summary
from console.audit_view import AuditQuery
from console.record_diff import as_csv, as_jsonl, differences
from engine import AuditRecord
from tests.console.conftest import SignIn

if TYPE_CHECKING:
    from playwright.sync_api import Page

LINE = AuditRecord(
    key=7, at_unix=1.0, by="=cmd()", by_kind="user", tenant="acme", action="limits.set", object_kind="tenant", object="acme",
    before={"max_running": None, "weight": 1.0}, after={"max_running": 8, "weight": 1.0},
    why='a, "b"\nc', request=None, undo_of=None, hash="h",
)  # fmt: skip


@pytest.mark.browser
def test_a_change_is_found_read_and_taken_back(sign_in: SignIn, network: str) -> None:
    """Limits set by hand are a line with before and after; Undo puts them back. A viewer of one tenant reads of that only."""
    admin = sign_in("root")
    admin.get_by_role("tab", name="Limits").click()
    admin.get_by_label("Running requests", exact=True).fill("8")
    admin.get_by_role("button", name="Set limits").click()
    admin.get_by_text("Limits of acme set").wait_for()
    admin.goto(f"{network}/audit?action=limits.set&object=acme")
    _open_first(admin)
    assert admin.locator(".diff").first.inner_text().split() == ["Field", "Before", "After", "max_running", "–", "8"]
    admin.get_by_role("button", name="Undo…").click()
    admin.get_by_role("alertdialog").get_by_label("Reason").fill("a test")
    admin.get_by_role("alertdialog").get_by_role("button", name="Undo", exact=True).click()
    admin.get_by_text("Took back limits.set of acme").wait_for()
    admin.get_by_text("Taken back by line").wait_for()
    admin.get_by_role("button", name="Verify").click()
    admin.get_by_text("Chain verified").wait_for()
    viewer = sign_in("vera")
    viewer.goto(f"{network}/audit")
    _open_first(viewer)
    assert "novacart" not in viewer.content() + "".join(viewer.frames_read)  # type: ignore[attr-defined]


def _open_first(page: Page) -> None:
    page.wait_for_function("window.did_handshake === true && document.querySelector('.audit-list .row')")
    page.locator(".audit-list .body .row").first.click()
    page.locator(".audit-drawer .diff").first.wait_for()


def test_differences_begin_with_what_changed() -> None:
    """A field that one side lacks is a change; times are moments."""
    found = differences({"same": 1, "gone": "x", "at_unix": 0}, {"same": 1, "new": [1], "at_unix": None})
    assert [(each.name, each.before, each.after) for each in found] == [
        ("at", "1970-01-01 00:00:00 UTC", "–"),
        ("gone", "x", None),
        ("new", None, "[1]"),
        ("same", "1", "1"),
    ]


PIN = {"tier": "device", "by": "ana", "reason": "hot all day", "until_unix": None}
NAME = {"version": 4, "adapter": "36f1daf371e2d2326cd371ce9ea35a16", "canary": None, "canary_version": None, "canary_share": 0.0}
TRIED = {**NAME, "canary": "7aa5ff2171e2d2326cd371ce9ea35a16", "canary_version": 5, "canary_share": 0.25}
WARM = {"days": [0, 1, 2, 3, 4], "minute": 510, "zone": "UTC", "trigger": "time", "tier": "device", "enabled": True}
CHANGES = {
    "schedule.put": (None, WARM, "Mon–Fri 08:30 UTC to device"),
    "schedule.drop": ({**WARM, "minute": None, "trigger": "sign_in"}, None, "was when its people sign in to device"),
    "version.pin": ({"pin": None}, {"pin": PIN, "tier": "device"}, "device, no end, “hot all day”"),
    "version.unpin": ({"pin": PIN}, {"pin": None, "tier": "device"}, "was device, no end, “hot all day”"),
    "version.warm": ({"pin": None}, {"pin": None, "tier": "host"}, "to host"),
    "version.retire": ({"state": "ready"}, {"state": "retired"}, "ready → retired"),
    "adapter.register": (None, {**NAME, "number": 2, "source": "/data/acme/tone"}, "version 2, 36f1daf3, from tone"),
    "alias.move": (NAME, {**TRIED, "adapter": TRIED["canary"], "canary_share": 0.0, "canary": None}, "36f1daf3 → 7aa5ff21"),
    "alias.canary": (NAME, TRIED, "25 % to 7aa5ff21"),
    "alias.drop": (TRIED, None, "was 36f1daf3, canary ended"),
    "limits.set": (LINE.before, LINE.after, "running requests – → 8"),
    "user.add": (None, {"role": "viewer", "tenant": "acme", "disabled_unix": None}, "role viewer, tenant acme"),
    "key.revoke": ({"revoked_unix": None, "name": "ci"}, {"revoked_unix": 0, "name": "ci"}, "revoked – → 1970-01-01 00:00:00 UTC"),
    "user.password": (None, None, LINE.why),
}


@pytest.mark.parametrize("action", CHANGES)
def test_a_row_says_what_changed_in_words(action: str) -> None:
    """What an operator would say of it: no field that is as it was, no name of a field, no digest in full, no zero share."""
    before, after, words = CHANGES[action]
    assert summary(replace(LINE, action=action, before=before, after=after)) == words


def test_a_refusal_reads_as_words() -> None:
    """One version: why; the rows of an operation: how many for which code."""
    refused = replace(LINE, action="adapter.reject", before=None, after={"code": "no_effect"}, why="It changes no logit.")
    assert summary(refused) == "It changes no logit."
    after = {"rejected": 1_037, "of": 5_000, "codes": {"no_weights": 1_030, "score_too_low": 7}}
    assert summary(replace(refused, after=after)) == "1,037 of 5,000 rows refused: no_weights 1,030, score_too_low 7"


def test_exports_keep_every_field() -> None:
    """JSON Lines are the records; CSV reads back, and none of its cells is a formula."""
    assert json.loads(as_jsonl([LINE]))["before"] == {"max_running": None, "weight": 1.0}
    rows = list(csv.DictReader(io.StringIO(as_csv([LINE, replace(LINE, by="ana")]).decode())))
    assert (rows[0]["by"], rows[1]["by"]) == ("'=cmd()", "ana")
    assert rows[0]["why"] == LINE.why
    assert json.loads(rows[0]["after"]) == LINE.after


def test_a_query_survives_its_address() -> None:
    """What cannot be read is left out."""
    query = AuditQuery(by="ana", action="key.revoke", object="x y", tenant="acme", hours="24", before=12, open=3)
    assert query.address == "/audit?by=ana&action=key.revoke&object=x+y&tenant=acme&hours=24&before=12&open=3"
    assert AuditQuery.from_address({"hours": "5", "before": "-1", "open": "x" * 99}) == AuditQuery()
