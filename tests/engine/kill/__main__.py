"""Forks engines on one data folder and kills each at a random moment; ends with an error when one does not find what was answered.

    python -m tests.engine.kill FOLDER SEED KILLS change|import

In a process of its own: it imports everything once and has one thread, so that a fork is quick and safe.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.engine.kill.answered import Answered
from tests.engine.kill.child import Child

OPEN_S = 60.0
"""Longest wait for an engine to open and tell what it found."""
NUM_IMPORTED = 40


class Killer:
    """Starts, listens, kills."""

    def __init__(self, folder: Path, seed: int, work: str) -> None:
        self.base, self.data = folder / "base", folder / "data"
        self.random = random.Random(seed)
        self.work = work
        self.imported = sorted((self.data / "many").iterdir())[:NUM_IMPORTED] if work == "import" else []
        expected = json.loads((folder / "expected.json").read_text())
        self.answered = Answered(expected)

    def round(self, *, lives_s: float, from_start: bool) -> bool:
        """One engine, killed ``lives_s`` after its start, or after it told what it found. Whether it ended before that."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._be_engine(writer)
        os.close(writer)
        self.answered.begin()
        try:
            end_s = time.monotonic() + (lives_s if from_start else OPEN_S)
            rest, ended = b"", False
            while not ended and (left_s := end_s - time.monotonic()) > 0:
                if not select.select([reader], [], [], left_s)[0]:
                    break
                data = os.read(reader, 65536)
                ended = not data
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if self.answered.hear(json.loads(line)) and not from_start:
                        end_s = time.monotonic() + lives_s
            assert ended or from_start or self.answered.opened, f"an engine did not open within {OPEN_S} s"
            os.kill(child, signal.SIGKILL)
            while data := os.read(reader, 65536):
                rest += data
            for line in rest.split(b"\n")[:-1]:
                self.answered.hear(json.loads(line))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
        return ended

    def _be_engine(self, pipe: int) -> None:
        """The child's whole life."""
        try:
            engine = Child(self.base, self.data, self.random.randrange(2**32), pipe)
            if self.work == "import":
                engine.run_import(self.imported)
            else:
                engine.run()
        except BaseException:  # noqa: BLE001 - the parent shows it
            os.write(pipe, json.dumps({"fault": traceback.format_exc()[-3000:]}).encode() + b"\n")
        os._exit(0)


def import_what_engines_import(killer: Killer) -> None:
    """What the first engine needed, the next ones have."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        killer.work = "names"
        child = Child(killer.base, killer.data, 0, writer)
        child.engine.start()
        os.write(writer, json.dumps([name for name in sys.modules if name.split(".")[0] in {"engine", "alembic", "numba"}]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as names:
        for name in json.load(names):
            __import__(name)
    os.wait()


def main() -> None:
    """``FOLDER`` has ``base``, ``data`` with the sources, and ``expected.json``."""
    folder, seed, kills, work = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    killer = Killer(folder, seed, work)
    import_what_engines_import(killer)
    longest_s = 0.5 if work == "change" else 0.4
    for number in range(kills):
        start = killer.random.random() < 0.1
        lives_s = killer.random.uniform(0.0, 1.0 if start else longest_s)
        if killer.round(lives_s=lives_s, from_start=start):
            print(f"kill {number}: it had ended", flush=True)
    killer.round(lives_s=0.0 if work == "change" else OPEN_S, from_start=False)
    print(json.dumps(killer.answered.summary()), flush=True)


if __name__ == "__main__":
    main()
