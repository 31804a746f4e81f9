"""What 20 open pages cost an idle Loradeck: its share of a core, and how late its event loop runs.

``python -m tests.measure_idle_console [--data DIR]`` opens the pages in Chromium on the same machine and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles

import httpx
import psutil
import uvicorn
from playwright.sync_api import sync_playwright

from tests.conftest import CHROMIUM_FLAGS, chromium_path

ROOT = Path(__file__).parent.parent
PAGES = ("/", "/adapters", "/playground")
START_S, SETTLE_S, MEASURE_S = 300, 20, 60
TICK_S = 0.01


def main() -> None:
    """Serve in a process of its own, watch it, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.measure_idle_console", description=__doc__)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--data", type=Path, help="a data folder that has the demo base already")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.data)
        return
    with tempfile.TemporaryDirectory() as empty:
        print(json.dumps(measure(options.pages, options.data or Path(empty))))


def measure(num_pages: int, data: Path) -> dict[str, float]:
    """CPU in percent of one core, loop lag in ms, over ``MEASURE_S`` with every page open and nothing asked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.measure_idle_console", "--serve", str(port), "--data", str(data)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
            for path in islice(cycle(PAGES), num_pages):
                browser.new_page().goto(f"http://127.0.0.1:{port}{path}")
            time.sleep(SETTLE_S)
            process, began = psutil.Process(server.pid), time.monotonic()
            used = sum(process.cpu_times()[:2])
            time.sleep(MEASURE_S)
            used, ended = sum(process.cpu_times()[:2]) - used, time.monotonic()
            server.send_signal(signal.SIGINT)
            lags = json.loads(server.communicate(timeout=60)[0].splitlines()[-1])
            browser.close()
    finally:
        server.kill()
    late_ms = sorted(1000 * late for at, late in lags if began < at < ended)
    cuts = quantiles(late_ms, n=100)
    cpu = 100 * used / (ended - began)
    return {"pages": num_pages, "cpu_percent": cpu, "lag_p50_ms": cuts[49], "lag_p99_ms": cuts[98], "lag_max_ms": late_ms[-1]}


def wait_for(url: str) -> None:
    """Until it answers 200."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        try:
            if httpx.get(url, timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    sys.exit(f"{url} did not answer within {START_S} s")


def serve(port: int, data: Path) -> None:
    """As run.py does, with a clock on the loop: how late a sleep of ``TICK_S`` returns."""
    import console  # noqa: PLC0415 - the measuring process needs neither
    from engine import Engine, Settings  # noqa: PLC0415
    from engine.api.app import build_app  # noqa: PLC0415
    from engine.demo.install import install_demo  # noqa: PLC0415
    from run import Server  # noqa: PLC0415

    lags: list[tuple[float, float]] = []

    async def watch() -> None:
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            lags.append((due, time.monotonic() - due))

    class Watched(Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            self.watch = asyncio.create_task(watch())
            await super().startup(sockets)

    engine = Engine(Settings(data=data, memory="2GiB"))  # type: ignore[arg-type]
    engine.start()
    install_demo(engine, lambda _text, _share: None)
    app = build_app(engine)
    console.build(engine, app)
    config = uvicorn.Config(app, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    try:
        Watched(config, engine, announce=lambda: None).run()
    except KeyboardInterrupt:
        pass
    finally:
        engine.stop()
    print(json.dumps(lags))


if __name__ == "__main__":
    main()
