"""Rewrites ``screenshots/``: starts Loradeck on the demo base, sends it traffic, and takes every page in every look.

Run it by ``make screenshots``. What the pictures show is measured at that moment; nothing in them is made up.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import CHROMIUM_FLAGS, chromium_path

ROOT = Path(__file__).parent.parent
with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = probe.getsockname()[1]
"""Nobody else's: traffic and pictures are of the server started here."""
ADDRESS = f"http://127.0.0.1:{PORT}"
START_S = 300
"""The demo base is converted on the way."""
WARM_UP_S = 45
"""Traffic before the first picture, so that the lines of the tiles have a shape."""
MEMORY = "2GiB"
"""Small, so that the parts of the memory bar can be told apart."""
SETTLE_S = 3
"""From opening a page to its picture: a few pulls of its timers."""
CLIENTS = 6

PAGES = {
    "overview": "/",
    "adapters": "/adapters",
    "playground": "/playground",
    "operations": "/operations",
    "tenants": "/tenants",
    "audit": "/audit",
    "settings": "/settings",
}
QUIET_PAGES = {"cold-warm": "/cold-warm"}
"""Taken once the traffic has ended."""
MEASURE_S = 300
PROMPTS = (
    "Name three rivers in Europe and one city on each.",
    "Write a short note to a colleague who is starting today.",
    "What does an index in a database do?",
    "List five words that rhyme with light.",
    "Summarise in one sentence why the sky is blue.",
)


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


def main() -> None:
    """All pages, all looks."""
    path = chromium_path()
    if path is None:
        sys.exit("no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as data, serving(Path(data)), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        with traffic():
            print(f"Traffic for {WARM_UP_S} s")
            time.sleep(WARM_UP_S)
            for look in LOOKS:
                take(browser, look, PAGES)
        measure_cold_and_warm(browser)
        for look in LOOKS:
            take(browser, look, QUIET_PAGES)
        browser.close()


@contextmanager
def serving(data: Path) -> Iterator[None]:
    """Loradeck with an empty data folder, answering; stopped as Ctrl-C would."""
    server = subprocess.Popen([sys.executable, "run.py", "--port", str(PORT), "--data", str(data), "--memory", MEMORY], cwd=ROOT)
    try:
        wait_until_ready(server)
        yield
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)


def wait_until_ready(server: subprocess.Popen[bytes]) -> None:
    """Returns when ``/health`` is 200. Exits when the server has ended or takes too long."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            sys.exit(f"Loradeck ended with {server.returncode} before it was ready")
        try:
            if httpx.get(f"{ADDRESS}/health", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    sys.exit(f"Loradeck was not ready within {START_S} s")


@contextmanager
def traffic() -> Iterator[None]:
    """Clients that ask for the base and for adapters, popular ones more often, until the block ends."""
    names = [model["id"] for model in httpx.get(f"{ADDRESS}/v1/models", timeout=10).json()["data"]]
    place_some(names[1:])
    stop = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(ask_until, stop, names, seed) for seed in range(CLIENTS)]
        try:
            yield
        finally:
            stop.set()
            for client in clients:
                client.result(timeout=60)


def place_some(aliases: list[str]) -> None:
    """One adapter pinned, so that the pictures show a pin."""
    for alias in aliases[:1]:
        httpx.post(f"{ADDRESS}/api/adapters/{alias}/pin", json={"reason": "hot all day"}, timeout=60).raise_for_status()


def ask_until(stop: threading.Event, names: list[str], seed: int) -> None:
    """One client: a request, a pause, the next one."""
    rng = random.Random(seed)
    popularity = [1 / (rank + 1) for rank in range(len(names))]
    with httpx.Client(base_url=ADDRESS, timeout=120) as client:
        while not stop.is_set():
            (name,) = rng.choices(names, popularity)
            body = {"model": name, "messages": [{"role": "user", "content": rng.choice(PROMPTS)}], "max_tokens": rng.randint(16, 64)}
            client.post("/v1/chat/completions", json=body).raise_for_status()
            stop.wait(rng.expovariate(2.0))


def take(browser: Browser, look: Look, pages: dict[str, str]) -> None:
    """These pages in one look."""
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme=look.theme,
        has_touch=look.is_phone,
        is_mobile=look.is_phone,
        reduced_motion="reduce",
    )
    page = context.new_page()
    for name, route in pages.items():
        page.goto(ADDRESS + route, wait_until="load")
        time.sleep(SETTLE_S)
        if name == "playground":
            send(page)
        file = ROOT / "screenshots" / f"{name}-{look.name}.png"
        page.screenshot(path=file)
        print(file.relative_to(ROOT))
    context.close()


def measure_cold_and_warm(browser: Browser) -> None:
    """One comparison of three runs; pages opened later show it."""
    page = browser.new_page()
    page.goto(f"{ADDRESS}/cold-warm", wait_until="load")
    time.sleep(SETTLE_S)
    page.get_by_text("3 runs", exact=True).click()
    page.locator("[data-run]").first.click()
    page.locator(".cold-progress", has_text="3 of 3 runs").wait_for(timeout=1000 * MEASURE_S)
    page.close()


def send(page: Page) -> None:
    """Press the playground's button and wait until its streams are well under way."""
    page.locator("[data-run]").first.click()
    time.sleep(2 * SETTLE_S)


if __name__ == "__main__":
    main()
