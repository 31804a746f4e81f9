"""The commands of README.md that operate a Loradeck, typed as they stand there to one that runs."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.test_readme import README, ROOT
from tests.tiny import AdapterRecipe, write_adapter

START_S = 120
PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test


def commands(heading: str) -> list[str]:
    """Lines of the section's blocks, continued ones joined."""
    section = README.split(f"\n{heading}\n", 1)[1]
    section = re.split(r"\n#{2,3} ", section, maxsplit=1)[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def shell(lines: list[str], **replaced: str) -> str:
    """Run them in one shell, stop at the first that fails; what they print."""
    script = "\n".join(["set -euo pipefail", *lines]).replace("curl ", "curl --fail-with-body -sS ")
    for there, here in replaced.items():
        script = script.replace(README_WORDS[there], here)
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


README_WORDS = {
    "address": "http://127.0.0.1:8080",
    "adapters": "/home/me/adapters",
    "python": ".venv/bin/python",
    "password": '"password": "…"',
    "database": "~/.local/share/loradeck/loradeck.db",
}


@contextmanager
def running(base: Path, data: Path, sources: Path) -> Iterator[str]:
    """The address of a Loradeck."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    flags = ["--base", base, "--data", data, "--source-allow", sources, "--port", port, "--memory", "24MiB", "--threads", 1, "--headless"]
    log = data.with_suffix(".log")
    with log.open("ab") as file:
        server = subprocess.Popen([sys.executable, "run.py", *map(str, flags)], cwd=ROOT, stdout=file, stderr=file)
    address, end_s = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while not answers(address):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def answers(address: str) -> bool:
    """Whether it serves."""
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False


def test_an_operator_who_follows_the_readme(tiny_base: Path, tmp_path: Path) -> None:
    """Adapters, versions and a rollback; then an admin, a tenant, a key and its limits; at last a backup: every command is taken."""
    sources, data = tmp_path / "adapters", tmp_path / "data"
    for number, name in enumerate(("sql", "sql-2")):
        write_adapter(sources / name, AdapterRecipe(seed=30 + number))
    operate, versions = commands("## Operate"), commands("### Versions, aliases and rollback")
    tenants, registry = commands("## Tenants, keys and limits"), commands("## The registry")
    assert [len(operate), len(versions), len(tenants), len(registry)] == [3, 8, 6, 1]
    with running(tiny_base, data, sources) as address:
        shell(operate, address=address, adapters=str(sources))
        first = httpx.get(f"{address}/api/adapters/sql").json()
        assert first["pinned"]
        told = shell(versions, address=address, adapters=str(sources))
        second = httpx.get(f"{address}/api/adapters/sql").json()
        assert (second["id"] != first["id"], second["pinned"]) == (True, False)  # a pin is a version's
        assert "alias.rollback" in told
        named = httpx.get(f"{address}/api/aliases").json()
        assert "sql" in str(named)
    admin = tenants[0].replace("add ana", f"--data {data} add ana --password-stdin") + f" <<< '{PASSWORD}'"
    shell([admin], python=sys.executable)
    with running(tiny_base, data, sources) as address:
        assert httpx.get(f"{address}/api/tenants").status_code == 401
        told = shell(tenants[2:], address=address, password=f'"password": "{PASSWORD}"')
        key = re.search(r"sk-[0-9a-f]{12}-[0-9a-f]{64}", told)
        assert key is not None
        listed = httpx.get(f"{address}/v1/models", headers={"authorization": f"Bearer {key[0]}"})
        assert listed.status_code == 200
    backup(registry[0], data, tmp_path)


def backup(command: str, data: Path, folder: Path) -> None:
    """The registry's own statement, by Python's SQLite: the command line of SQLite need not be installed."""
    import sqlite3  # noqa: PLC0415 - here only

    statement = re.search(r'"(VACUUM INTO .*)"', command)
    assert statement is not None
    sqlite3.connect(data / "loradeck.db").execute(statement[1].replace("backup.db", str(folder / "backup.db")))
    names = sqlite3.connect(folder / "backup.db").execute("SELECT name FROM user").fetchall()
    assert ("ana",) in names
