"""A PostgreSQL server of the tests' own: Debian's binaries on a folder and a socket in /tmp, gone when the tests end or die."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

MISSING = "no PostgreSQL server: run `make postgres`, or on Debian and Ubuntu apt-get install postgresql"
START_S = 30.0
WHILE_STDIN_IS_OPEN = '"$@" & server=$!; read -r _; kill -QUIT $server; wait $server'
"""For ``sh``: when the tests die, even by SIGKILL, their end of the pipe closes, and the server ends too."""
QUICK = ("fsync=off", "full_page_writes=off", "listen_addresses=", "shared_buffers=16MB", "max_connections=60")
"""What these tests ask survives a killed process; none pulls the plug."""


class PostgresServer:
    """Runs between ``start`` and ``stop``; nobody else's server is touched, and no port is taken."""

    def __init__(self) -> None:
        self._bin = _binaries()
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._user = "postgres" if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="loradeck-pg-", dir="/tmp"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        options = ("--no-sync", "--auth=trust", "--username=loradeck", "--encoding=UTF8", "--no-locale")
        made = subprocess.run([self._bin / "initdb", *options, self.folder / "data"], **self._as_server(), capture_output=True, check=False)
        assert made.returncode == 0, made.stderr.decode()

    def start(self) -> None:
        """Serve, and wait until it does."""
        settings = [part for setting in (*QUICK, f"unix_socket_directories={self.folder}") for part in ("-c", setting)]
        server = [self._bin / "postgres", "-D", self.folder / "data", *settings]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", WHILE_STDIN_IS_OPEN, "sh", *server], stdin=subprocess.PIPE, stdout=log, stderr=log, **self._as_server()
            )
        end_s = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < end_s, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End at once, in the middle of what it does, as after a crash; safe to call again."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(START_S)
            self._process = None

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Not there for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def new_database(self) -> str:
        """The URL of an empty one."""
        name = f"registry{next(self._numbers)}"
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://loradeck@/{name}?host={self.folder}"

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), user="loradeck", dbname="postgres", autocommit=True)

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_server(self) -> dict[str, str | Path | None]:
        """It refuses to run as root."""
        return {"user": self._user, "cwd": self.folder}


def _binaries() -> Path:
    """Where the newest server's are."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    other = shutil.which("initdb")
    if not found and other is not None:
        found = [Path(other).resolve().parent]
    if not found or (os.getuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}):
        raise FileNotFoundError(MISSING)
    return max(found, key=lambda path: int(path.parent.name) if path.parent.name.isdecimal() else 0)
