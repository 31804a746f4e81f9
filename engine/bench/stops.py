"""Moments in which the machine ran nobody: seen from a process of its own, so that nothing of ours can be taken for one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_EVERY_S = 0.005
LEAST_S = 0.05
"""Late by so much: many times what a process that hardly ever runs waits for its turn."""


@contextlib.contextmanager
def stops_of_machine() -> Iterator[list[tuple[float, float]]]:
    """Stops so far, as (since, until) in seconds of ``time.perf_counter``; whole once the block is left."""
    found: list[tuple[float, float]] = []
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:  # noqa: S603 - this file
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        watcher.stdout.readline()
        try:
            yield found
        finally:
            told, _ = watcher.communicate("")
            found += [(float(since), float(until)) for since, until in map(str.split, told.splitlines())]


def watch() -> None:
    """Print each stop, until standard input ends."""
    listener = threading.Thread(target=sys.stdin.read, daemon=True)
    listener.start()
    print("watching", flush=True)
    last_s = time.perf_counter()
    while listener.is_alive():
        time.sleep(LOOK_EVERY_S)
        now_s = time.perf_counter()
        if now_s - last_s > LEAST_S:
            print(last_s, now_s, flush=True)
        last_s = now_s


if __name__ == "__main__":
    watch()
