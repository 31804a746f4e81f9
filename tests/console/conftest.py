"""A console over the scripted engine, in a process of its own, and pages on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import httpx
import pytest

from tests.pictures.checks import watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
START_S = 180
"""Half a dozen seconds where nothing else runs."""
PASSWORD = "correct horse battery"  # noqa: S105 - an account of the tests
SignIn: TypeAlias = "Callable[[str], Page]"


@contextmanager
def served(data: Path, *flags: str) -> Iterator[str]:
    """The address of a scripted console; ``flags`` as in ``tests.console.serve``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.console.serve", str(port), str(data), *flags]
    with (data / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(address), START_S)
        yield address
    finally:
        server.terminate()
        server.wait(10)


def answers(address: str) -> bool:
    """Whether the server is up."""
    try:
        return httpx.get(f"{address}/poke/clients").status_code < 400
    except httpx.TransportError:
        return False


def wait_for(condition: Callable[[], bool], within_s: float) -> None:
    """Poll until true; fails after ``within_s``."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One scripted console a file."""
    with served(tmp_path_factory.mktemp("console"), "trouble") as address:
        yield address


@pytest.fixture
def visit(chromium: Browser, site: str) -> Iterator[Callable[..., Page]]:
    """Open a path in a fresh session and wait until it is alive; console errors fail the test."""
    contexts: list[tuple[BrowserContext, list[str]]] = []

    def open_page(path: str, *, width: int = 1440, height: int = 900, scheme: str = "dark") -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append((context, watch(context)))
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(site + path)
        page.wait_for_function("window.did_handshake === true && document.querySelector('.shell')")
        return page

    yield open_page
    for context, _ in contexts:
        context.close()
    assert [error for _, errors in contexts for error in errors] == []


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with an admin, and a viewer of the tenant acme."""
    with served(tmp_path_factory.mktemp("network"), "accounts", "trouble") as address:
        yield address


@pytest.fixture
def sign_in(chromium: Browser, network: str) -> Iterator[SignIn]:
    """A session of somebody's, on the tenants page; ``page.frames_read`` holds what its sockets received."""
    contexts: list[BrowserContext] = []

    def begin(name: str) -> Page:
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        received: list[str] = []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(str(frame))))
        page.frames_read = received  # type: ignore[attr-defined]
        page.goto(f"{network}/login")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{network}/tenants?open=acme&part=keys")
        page.wait_for_function("window.did_handshake === true && document.querySelector('.tenant-list .row')")
        return page

    yield begin
    for context in contexts:
        context.close()
