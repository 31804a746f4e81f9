"""States of pages, each with the way to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

SETTLE_MS = 2000
"""From opening a page to its picture: a few pulls of its timers."""


def _stay(_: Page) -> None:
    """The address says it all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A page, and what is done on it before its picture; ``name`` begins the file's name."""

    name: str
    route: str
    act: Callable[[Page], None] = _stay
    needs_session: bool = True
    alone: bool = False
    """Whether its looks are taken one after the other, since what is done takes the engine."""


def send(page: Page) -> None:
    """Press the playground's button and wait until its streams are well under way."""
    page.locator("[data-run]").first.click()
    begun = "[...document.querySelectorAll('.lane-output')].filter((el) => el.textContent.trim())"
    page.wait_for_function(f"{begun}.length > 5", timeout=60_000)
    page.wait_for_timeout(SETTLE_MS)


def refuse(page: Page) -> None:
    """A password that is none."""
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password").fill("not it")
    page.get_by_role("button", name="Sign in").click()
    page.locator("[role=alert]:not(:empty)").wait_for()


def make_key(page: Page) -> None:
    """A key whose secret is shown now and never again."""
    page.get_by_role("button", name="New key").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("checkout")
    dialog.get_by_label("Models").fill("acme-support")
    dialog.get_by_role("button", name="Make key").click()
    dialog.get_by_text("It is not shown again.").wait_for()


def look_before(manifest: str) -> Callable[[Page], None]:
    """The dry run of an import: rows that would be new, unchanged or rejected."""

    def act(page: Page) -> None:
        page.get_by_role("button", name="Register").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("radio", name="Manifest").click()
        dialog.get_by_label("Rows", exact=True).fill(manifest)
        dialog.get_by_role("button", name="Dry run").click()
        dialog.locator(".dry-run .row").nth(2).wait_for(timeout=60_000)
        dialog.locator(".dry-run").scroll_into_view_if_needed()

    return act


def wait_for_pace(page: Page) -> None:
    """An import under way: rows are done, and it is known how fast."""
    page.locator(".drawer", has_text=" per s").wait_for(timeout=60_000)


PAGES = (
    Scene(name="overview", route="/"),
    Scene(name="adapters", route="/adapters"),
    Scene(name="operations", route="/operations"),
    Scene(name="tenants", route="/tenants"),
    Scene(name="audit", route="/audit"),
    Scene(name="settings", route="/settings"),
)
QUIET_PAGES = (Scene(name="playground", route="/playground", act=send, alone=True), Scene(name="cold-warm", route="/cold-warm"))
"""Taken once the traffic has ended."""
STATES = (
    Scene(name="tenant-limits", route="/tenants?open=acme"),
    Scene(name="tenant-keys", route="/tenants?open=acme&part=keys"),
    Scene(name="tenant-usage", route="/tenants?open=acme&part=usage"),
    Scene(name="tenant-members", route="/tenants?open=acme&part=members"),
    Scene(name="key-shown-once", route="/tenants?open=acme&part=keys", act=make_key),
    Scene(name="adapter-overview", route="/adapters?open=acme-support"),
    Scene(name="adapter-versions", route="/adapters?open=acme-tone&tab=versions"),
    Scene(name="adapter-validation", route="/adapters?open=acme-support&tab=validation"),
    Scene(name="adapter-audit", route="/adapters?open=acme-tone&tab=audit"),
    Scene(name="adapters-rejected", route="/adapters?view=rejected"),
    Scene(name="schedules", route="/settings?part=schedules"),
    Scene(name="bases", route="/settings?part=bases"),
    Scene(name="gate", route="/settings?part=gate"),
    Scene(name="login", route="/login", act=refuse, needs_session=False),
)
