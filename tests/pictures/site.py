"""A Loradeck of the script's own: accounts, a server on a free port, and calls to it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from engine import Settings
from engine.admin.accounts import accounts

ROOT = Path(__file__).resolve().parents[2]
ADMIN, PASSWORD = "ana", "a long enough sentence"
START_S = 300
"""The demo base is converted on the way."""
FLAGS = ("--memory", "880MiB", "--max-sequences", "8")
"""Little more than the base, and fewer sequences than clients: adapters, keys and values, and tenants compete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where it is, what proves that one is its admin, and its data folder."""

    address: str
    token: str
    cookie: str
    data: Path

    def call(self, method: str, path: str, *, may_fail: bool = False, **body: Any) -> Any:
        """One call to ``/api`` as the admin; what it answers."""
        headers = {"authorization": f"Bearer {self.token}"}
        answer = httpx.request(method, f"{self.address}/api{path}", json=body or None, headers=headers, timeout=120)
        if answer.is_error and not may_fail:
            sys.exit(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None


@contextmanager
def serving(data: Path, port: int) -> Iterator[Site]:
    """Loradeck with an admin and an empty data folder, answering; stopped as Ctrl-C would."""
    with accounts(Settings(data=data, host="0.0.0.0")) as tenants:
        tenants.users.add(ADMIN, PASSWORD, role="admin", tenant=None)
    command = [sys.executable, "-m", "tests.pictures.serve", str(port), "--data", str(data), *FLAGS]
    server = subprocess.Popen(command, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(server, address)
        session = httpx.post(f"{address}/api/session", json={"name": ADMIN, "password": PASSWORD}, timeout=30).json()
        signed_in = httpx.post(f"{address}/login", data={"name": ADMIN, "password": PASSWORD}, timeout=30)
        yield Site(address=address, token=session["token"], cookie=signed_in.cookies["loradeck_session"], data=data)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def _wait_until_ready(server: subprocess.Popen[bytes], address: str) -> None:
    """Returns when ``/health`` is 200. Exits when the server has ended or takes too long."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            sys.exit(f"Loradeck ended with {server.returncode} before it was ready")
        try:
            if httpx.get(f"{address}/health", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    sys.exit(f"Loradeck was not ready within {START_S} s")
