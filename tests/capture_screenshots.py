"""Rewrites ``screenshots/``: starts Loradeck on the demo base, lets tenants work, takes every page in every look, and checks each.

Run it by ``make screenshots``; ``ARGS="tenants audit"`` takes only those. What the pictures show is measured at that moment; nothing in
them is made up. It ends with 1 when a page has a fault of ``tests.pictures.checks``.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.conftest import CHROMIUM_FLAGS, chromium_path
from tests.pictures import history
from tests.pictures.camera import Camera, Look
from tests.pictures.scenes import PAGES, QUIET_PAGES, STATES, Scene, look_before, wait_for_pace
from tests.pictures.site import Site, serving
from tests.pictures.traffic import traffic

WARM_UP_S = 75
"""Traffic before the first picture, so that the lines of the tiles have a shape."""


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


def main(wanted: set[str]) -> int:
    """All pages and states, all looks; 1 where a page has a fault."""
    path = chromium_path()
    if path is None:
        sys.exit("no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as data, serving(Path(data), free_port()) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        camera = Camera(browser, site, wanted)
        if not wanted or wanted - {scene.name for scene in QUIET_PAGES}:
            take_traffic(camera, site)
        if not wanted or "cold-warm" in wanted:
            camera.measure_cold_and_warm(LOOKS[0])
        camera.take(QUIET_PAGES, LOOKS)
        browser.close()
    print(f"{len(camera.found)} faults")
    return 1 if camera.found else 0


def take_traffic(camera: Camera, site: Site) -> None:
    """Pages and their states, while tenants work."""
    done = history.make_history(site)
    with traffic(site.address, done.keys):
        print(f"Traffic for {WARM_UP_S} s", flush=True)
        time.sleep(WARM_UP_S)
        camera.take(PAGES, LOOKS)
        camera.take(STATES, STATE_LOOKS)
        take_changes(camera, site, done)


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
    camera.take((Scene(name="operation-running", route=f"/operations?open={running}", act=wait_for_pace),), STATE_LOOKS)
    site.call("POST", f"/operations/{running}/cancel")


def free_port() -> int:
    """Nobody else's: traffic and pictures are of the server started here."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
