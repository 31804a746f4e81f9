"""Rewrites ``screenshots/``: starts Loradeck on the demo base, lets tenants work, takes every page in every look, and checks each.

Run it by ``make screenshots``; ``ARGS="tenants audit"`` takes only those. What the pictures show is measured at that moment; nothing in
them is made up. It ends with 1 when a page has a fault of ``tests.pictures.checks``.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.conftest import CHROMIUM_FLAGS, chromium_path
from tests.pictures import history
from tests.pictures.checks import faint, faults, watch
from tests.pictures.scenes import PAGES, QUIET_PAGES, SETTLE_MS, STATES, Scene, look_before
from tests.pictures.site import ROOT, Site, serving
from tests.pictures.traffic import traffic

WARM_UP_S = 90
"""Traffic before the first picture, so that the lines of the tiles have a shape."""
MEASURE_S = 300
THEME_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A theme on a screen; ``name`` ends the file's name."""

    name: str
    theme: Literal["dark", "light"]
    width: int
    height: int

    @property
    def is_phone(self) -> bool:
        """Whether a finger drives it."""
        return self.width < 768


LOOKS = (
    Look(name="dark", theme="dark", width=1440, height=900),
    Look(name="light", theme="light", width=1440, height=900),
    Look(name="laptop", theme="dark", width=1366, height=768),
    Look(name="phone", theme="dark", width=390, height=844),
    Look(name="phone-light", theme="light", width=390, height=844),
)
STATE_LOOKS = (
    Look(name="laptop", theme="dark", width=1366, height=768),
    Look(name="phone-light", theme="light", width=390, height=844),
)
"""Both themes and both sizes; the check looks at each in the other theme as well."""


class Camera:
    """Takes scenes in several looks at once: all pages are opened, then each has its picture and its check."""

    def __init__(self, browser: Browser, site: Site, wanted: set[str]) -> None:
        self._browser, self._site, self._wanted = browser, site, wanted
        self.found: list[str] = []
        """Faults, with where they are."""

    def take(self, scenes: Iterable[Scene], looks: Iterable[Look]) -> None:
        """One picture for each scene in each look."""
        for scene in scenes:
            if not self._wanted or scene.name in self._wanted:
                self._take(scene, tuple(looks))

    def measure_cold_and_warm(self) -> None:
        """One comparison of three runs; pages opened later show it."""
        if self._wanted and "cold-warm" not in self._wanted:
            return
        context, _ = self._open(Look(name="", theme="dark", width=1440, height=900), needs_session=True)
        page = self._visit(context, "/cold-warm")
        page.get_by_text("3 runs", exact=True).click()
        page.locator("[data-run]").first.click()
        page.locator(".cold-progress", has_text="3 of 3 runs").wait_for(timeout=1000 * MEASURE_S)
        context.close()

    def _take(self, scene: Scene, looks: tuple[Look, ...]) -> None:
        opened = [(look, *self._open(look, needs_session=scene.needs_session)) for look in looks]
        pages = [self._visit(context, scene.route, alive=scene.needs_session) for _, context, _ in opened]
        for page in pages:
            scene.act(page)
        pages[-1].wait_for_timeout(SETTLE_MS)
        for (look, context, errors), page in zip(opened, pages, strict=True):
            file = ROOT / "screenshots" / f"{scene.name}-{look.name}.png"
            page.screenshot(path=file)
            print(file.relative_to(ROOT), flush=True)
            told = [f"{file.stem}: {fault}" for fault in (*errors, *faults(page), *self._in_the_other_theme(page, look))]
            print(*told, sep="\n", end="\n" if told else "", flush=True)
            self.found += told
            context.close()

    def _in_the_other_theme(self, page: Page, look: Look) -> list[str]:
        page.emulate_media(color_scheme="light" if look.theme == "dark" else "dark")
        page.wait_for_timeout(THEME_MS)
        return [f"in the other theme, {fault}" for fault in faint(page)]

    def _open(self, look: Look, *, needs_session: bool) -> tuple[BrowserContext, list[str]]:
        context = self._browser.new_context(
            viewport={"width": look.width, "height": look.height},
            color_scheme=look.theme,
            has_touch=look.is_phone,
            is_mobile=look.is_phone,
            reduced_motion="reduce",
        )
        if needs_session:
            context.add_cookies([{"name": "loradeck_session", "value": self._site.cookie, "url": self._site.address}])
        return context, watch(context)

    def _visit(self, context: BrowserContext, route: str, *, alive: bool = True) -> Page:
        page = context.new_page()
        page.goto(self._site.address + route, wait_until="load")
        if alive:
            page.wait_for_function("window.did_handshake === true && document.querySelector('.shell')")
        return page


def main(wanted: set[str]) -> int:
    """All pages and states, all looks; 1 where a page has a fault."""
    path = chromium_path()
    if path is None:
        sys.exit("no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as data, serving(Path(data), free_port()) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        camera = Camera(browser, site, wanted)
        done = history.make_history(site)
        with traffic(site.address, done.keys):
            print(f"Traffic for {WARM_UP_S} s", flush=True)
            time.sleep(WARM_UP_S)
            camera.take(PAGES, LOOKS)
            camera.take(STATES, STATE_LOOKS)
            take_changes(camera, site, done)
        camera.measure_cold_and_warm()
        camera.take(QUIET_PAGES, LOOKS)
        browser.close()
    print(f"{len(camera.found)} faults", *camera.found, sep="\n")
    return 1 if camera.found else 0


def take_changes(camera: Camera, site: Site, done: history.History) -> None:
    """The change that was taken back, an import with rows at fault, one before it begins, and one under way."""
    rows = history.rows_of_a_long_import(site)
    scenes = (
        Scene(name="audit-undo", route=f"/audit?action=limits.set&open={done.undone}"),
        Scene(name="operation-rejected", route=f"/operations?open={done.imported}&rows=rejected"),
        Scene(name="register-dry-run", route="/adapters", act=look_before(history.manifest([*rows[:4], *history.rows_at_fault(site)]))),
    )
    camera.take(scenes, STATE_LOOKS)
    running = history.begin_import(site, rows)
    camera.take((Scene(name="operation-running", route=f"/operations?open={running}"),), STATE_LOOKS)
    site.call("POST", f"/operations/{running}/cancel")


def free_port() -> int:
    """Nobody else's: traffic and pictures are of the server started here."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
