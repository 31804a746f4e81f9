"""Tenants, limits and keys in a browser, by an admin beside a viewer of one tenant (C05)."""

from __future__ import annotations

import re

import pytest

from console.limits import LIMITS, WEIGHT, NotALimit, read, typed, words
from console.widgets.fairness_card import jain_words, most_involved
from console.widgets.usage_card import by_day
from engine import Allowance, FairnessSnapshot, TenantId, UsageRow
from tests.console.conftest import SignIn
from tests.console.scripted_world import fairness

SECRET = re.compile(r"sk-[0-9a-f]{12}-[0-9a-f]{64}")


@pytest.mark.browser
def test_a_secret_is_shown_once_and_to_nobody_else(sign_in: SignIn, network: str) -> None:
    """The dialog has it and works; closed, it is nowhere, and the other session never received it or another tenant's name."""
    viewer, admin = sign_in("vera"), sign_in("root")
    admin.get_by_role("button", name="New key…").click()
    dialog = admin.get_by_role("dialog", name="New key for acme")
    dialog.get_by_label("Name", exact=True).fill("billing")
    dialog.get_by_role("button", name="Make key").click()
    dialog.get_by_text("It is not shown again.").wait_for()
    secret = SECRET.search(dialog.inner_text())
    assert secret is not None
    assert dialog.inner_text().count(f"{network}/v1") == 2
    dialog.get_by_role("button", name="Done").click()
    dialog.wait_for(state="detached")
    assert secret[0] not in admin.content()
    admin.reload()
    admin.get_by_text("billing").wait_for()
    assert secret[0] not in admin.content()
    viewer.locator(".tenant-list .c-tenant", has_text="acme").last.wait_for()
    seen = viewer.content() + "".join(viewer.frames_read)  # type: ignore[attr-defined]
    assert secret[0] not in seen
    assert "novacart" not in seen
    assert "New key for acme" not in seen
    assert viewer.get_by_role("button", name="New key…").is_disabled()


@pytest.mark.browser
def test_an_edited_limit_holds_and_can_be_taken_back(sign_in: SignIn, network: str) -> None:
    """A word is refused at its field; a number is what the service has; Undo puts the limit before back."""
    admin = sign_in("root")
    admin.get_by_role("tab", name="Limits").click()
    field = admin.get_by_label("Requests per min", exact=True)
    field.fill("many")
    admin.get_by_role("button", name="Set limits").click()
    admin.get_by_text("A whole number, or empty for no limit").wait_for()
    field.fill("1,200")
    admin.get_by_role("button", name="Set limits").click()
    admin.get_by_text("Limits of acme set").wait_for()
    assert admin.request.get(f"{network}/poke/limit/acme").json() == 1200
    admin.get_by_role("button", name=re.compile("Undo")).click()
    admin.get_by_text("Undone").wait_for()
    assert admin.request.get(f"{network}/poke/limit/acme").json() is None


@pytest.mark.parametrize(("text", "limit"), [("", None), (" – ", None), ("0", 0), ("1,200", 1200), ("12 000", 12000)])
def test_limits_as_typed(text: str, limit: int | None) -> None:
    """Empty and a dash are no limit, zero is one."""
    assert read(LIMITS[0], text) == limit
    assert read(LIMITS[0], typed(limit)) == limit


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "9" * 30, "²"])
def test_what_is_no_limit(text: str) -> None:
    """Refused before it is sent."""
    with pytest.raises(NotALimit):
        read(LIMITS[0], text)


def test_a_weight_has_no_none() -> None:
    """Empty is 1; nothing is served at 0."""
    assert read(WEIGHT, "") == 1
    assert read(WEIGHT, "0.5") == 0.5
    for text in ("0", "-1", "nan", "inf", "x"):
        with pytest.raises(NotALimit):
            read(WEIGHT, text)


def test_every_limit_has_a_field() -> None:
    """What an allowance has, the form shows."""
    assert {limit.name for limit in (*LIMITS, WEIGHT)} == set(Allowance.__slots__)
    assert words(Allowance()) == "no limit"
    assert words(Allowance(max_running=2)) == "2 running requests"


def test_usage_is_summed_by_day() -> None:
    """Keys and adapters of one day are one row, the newest first."""

    def row(day: str, key: str) -> UsageRow:
        return UsageRow(
            day=day, tenant=TenantId("a"), key=key, adapter="", requests=2, prompt_tokens=10, cached_tokens=0, output_tokens=5,
            cold_starts=1, errors=0,
        )  # fmt: skip

    rows = [row(day, key) for day in ("2026-11-29", "2026-11-30") for key in ("", "k")]
    assert [(day.day, day.tokens, day.requests, day.cold) for day in by_day(rows)] == [("2026-11-30", 30, 4, 2), ("2026-11-29", 30, 4, 2)]


def test_the_matrix_names_those_involved() -> None:
    """Whoever stalled or was stalled, by name; among nobody there is no index."""
    world = fairness(moves=True, trouble=True)
    assert most_involved(world.displaced) == ["clinica", "halden-legal", "meridian", "novacart", "quillpad"]
    assert jain_words(world) == ("0.713", "of 1, among 5 tenants that waited")
    assert jain_words(FairnessSnapshot())[0] == "–"
