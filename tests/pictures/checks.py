"""Faults that a browser finds on an open page: cut at its edge, hard to read, without a name, out of a keyboard's reach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page

LEAST_CONTRAST = 4.5
MOST_TABS = 400
SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def watch(context: BrowserContext) -> list[str]:
    """What pages that are opened from now on write to the browser's console as errors; ``faults`` works on those pages.

    A sign-in that is refused is a page too, of which the browser notes the 401.
    """
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not (message.location["url"].endswith("/login") and "401" in message.text):
            errors.append(f"console: {message.text}")

    context.add_init_script(SCRIPT)
    context.on("console", note)
    context.on("weberror", lambda error: errors.append(f"script: {error.error}"))
    return errors


def faults(page: Page, *, with_keys: bool = True) -> list[str]:
    """Of a page in a context that is watched, as sentences. With keys, Tab goes round once."""
    if with_keys:
        go_round(page)
    told = "() => { const f = window.pageFaults; return [...f.clipped(), ...f.cut(), ...f.nameless(), ...f.unreached()]; }"
    return [*page.evaluate(told), *faint(page)]


def faint(page: Page) -> list[str]:
    """Texts below the least contrast in the theme that is shown."""
    return page.evaluate("(least) => window.pageFaults.faint(least)", LEAST_CONTRAST)  # type: ignore[no-any-return] # sentences


def go_round(page: Page) -> None:
    """Press Tab as often as it takes to come by everything, wherever it begins."""
    for _ in range(min(MOST_TABS, page.evaluate("window.pageFaults.stops()"))):
        page.keyboard.press("Tab")
