"""Opens pages in several looks, takes their pictures, and checks them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.pictures.checks import faint, faults, watch
from tests.pictures.scenes import SETTLE_MS
from tests.pictures.site import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.pictures.scenes import Scene
    from tests.pictures.site import Site

MEASURE_S = 300
THEME_MS = 200
"""From another theme to its colours."""


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


class Camera:
    """Takes a scene in all its looks at once: the pages are opened, then each has its picture and its check."""

    def __init__(self, browser: Browser, site: Site, wanted: set[str]) -> None:
        self._browser, self._site, self._wanted = browser, site, wanted
        self._opened: dict[tuple[Look, bool], tuple[BrowserContext, list[str]]] = {}
        self.found: list[str] = []
        """Faults, with where they are."""

    def take(self, scenes: Iterable[Scene], looks: tuple[Look, ...]) -> None:
        """One picture for each scene in each look."""
        for scene in scenes:
            if not self._wanted or scene.name in self._wanted:
                for group in [(look,) for look in looks] if scene.alone else [looks]:
                    self._take(scene, group)

    def measure_cold_and_warm(self, look: Look) -> None:
        """One comparison of three runs; pages opened later show it."""
        context, _ = self._open(look, needs_session=True)
        page = self._visit(context, "/cold-warm")
        page.get_by_text("3 runs", exact=True).click()
        page.locator("[data-run]").first.click()
        page.locator(".cold-progress", has_text="3 of 3 runs").wait_for(timeout=1000 * MEASURE_S)
        page.close()

    def _take(self, scene: Scene, looks: tuple[Look, ...]) -> None:
        opened = [self._open(look, needs_session=scene.needs_session) for look in looks]
        pages = [self._visit(context, scene.route, alive=scene.needs_session) for context, _ in opened]
        for page in pages:
            scene.act(page)
        pages[-1].wait_for_timeout(SETTLE_MS)
        for look, (_, errors), page in zip(looks, opened, pages, strict=True):
            file = ROOT / "screenshots" / f"{scene.name}-{look.name}.png"
            page.screenshot(path=file)
            print(file.relative_to(ROOT), flush=True)
            told = [*errors, *faults(page, with_keys=look in {looks[0], looks[-1]}), *_in_the_other_theme(page, look)]
            for fault in told:
                self.found.append(f"{file.stem}: {fault}")
                print(self.found[-1], flush=True)
            errors.clear()
            page.close()

    def _open(self, look: Look, *, needs_session: bool) -> tuple[BrowserContext, list[str]]:
        """One session of a browser for each look, so that what pages share is fetched once."""
        if (look, needs_session) not in self._opened:
            context = self._browser.new_context(
                viewport={"width": look.width, "height": look.height},
                color_scheme=look.theme,
                has_touch=look.is_phone,
                is_mobile=look.is_phone,
                reduced_motion="reduce",
            )
            if needs_session:
                context.add_cookies([{"name": "loradeck_session", "value": self._site.cookie, "url": self._site.address}])
            self._opened[look, needs_session] = context, watch(context)
        return self._opened[look, needs_session]

    def _visit(self, context: BrowserContext, route: str, *, alive: bool = True) -> Page:
        page = context.new_page()
        page.goto(self._site.address + route, wait_until="load")
        if alive:
            page.wait_for_function("window.did_handshake === true && document.querySelector('.shell')")
        return page


def _in_the_other_theme(page: Page, look: Look) -> list[str]:
    page.emulate_media(color_scheme="light" if look.theme == "dark" else "dark")
    page.wait_for_timeout(THEME_MS)
    return [f"in the other theme, {fault}" for fault in faint(page)]
