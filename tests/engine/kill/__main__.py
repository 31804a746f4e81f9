"""Forks engines on one data folder and kills each at a random moment; ends with an error when one does not find what was answered.

    python -m tests.engine.kill FOLDER SEED KILLS change|import

In a process of its own: it imports and compiles everything once and has one thread, so that a fork is quick and safe.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import math
import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from kernels.cpu_loop import compile_loops
from tests.engine.kill.answered import Answered
from tests.engine.kill.child import Child

WAIT_S = 60.0
"""Longest wait for an engine to come as far as it may."""
MOST_STEPS = {"change": 10, "import": 5}
"""Changes that an engine begins and answers before it is killed; times that it tells how many rows an import has taken in."""
LINGERS_S = 0.1
"""Longest time from then to the kill: about as long as a change takes. Every second kill follows at once."""
OPENS_S = 0.5
"""Longest time from a start to the kill, for those that are killed while they open."""


class Killer:
    """Starts, listens, kills."""

    def __init__(self, folder: Path, seed: int, work: str) -> None:
        self.base, self.data = folder / "base", folder / "data"
        self.random = random.Random(seed)
        self.work = work
        self.imported = sorted((self.data / "many").iterdir()) if work == "import" else []
        expected = json.loads((folder / "expected.json").read_text())
        self.answered = Answered(expected)

    def round(self, *, steps: float, lingers_s: float) -> bool:
        """One engine, killed ``lingers_s`` after it opened and began so many steps; -1: after its start. True when it ended before."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._be_engine(writer)
        os.close(writer)
        self.answered.begin()
        try:
            come_so_far = steps < 0
            end_s = time.monotonic() + (lingers_s if come_so_far else WAIT_S)
            rest, ended = b"", False
            while not ended and (left_s := end_s - time.monotonic()) > 0:
                if not select.select([reader], [], [], left_s)[0]:
                    break
                data = os.read(reader, 65536)
                ended = not data
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.answered.hear(json.loads(line))
                if not come_so_far and self.answered.opened and self.answered.steps >= steps:
                    come_so_far, end_s = True, time.monotonic() + lingers_s
            if not (ended or come_so_far):
                os.kill(child, signal.SIGABRT)  # it tells where its threads are
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
                raise AssertionError(f"an engine did not open and begin {steps} steps within {WAIT_S} s")
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
            engine = Child(self.base, self.data, self.random.randrange(2**32), pipe, known=self.answered.expected)
            if self.work == "import":
                engine.run_import(self.imported)
            else:
                engine.run()
        except BaseException:  # noqa: BLE001 - the parent shows it
            os.write(pipe, json.dumps({"fault": traceback.format_exc()[-3000:]}).encode() + b"\n")
        os._exit(0)


def prepare(killer: Killer) -> None:
    """What the first engine imported and compiled, the next ones have. Starts no thread."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        child = Child(killer.base, killer.data, 0, writer, known=())
        child.engine.start()
        os.write(writer, json.dumps([name for name in sys.modules if name.split(".")[0] in {"engine", "alembic", "numba"}]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as names:
        for name in json.load(names):
            __import__(name)
    os.wait()
    compile_loops()
    gc.freeze()


def main() -> None:
    """``FOLDER`` has ``base``, ``data`` with the sources, and ``expected.json``."""
    folder, seed, kills, work = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    faulthandler.enable()
    killer = Killer(folder, seed, work)
    prepare(killer)
    for number in range(kills):
        if killer.random.random() < 0.1:
            ended = killer.round(steps=-1, lingers_s=killer.random.uniform(0.0, OPENS_S))
        else:
            lingers_s = killer.random.choice((0.0, killer.random.uniform(0.0, LINGERS_S)))
            ended = killer.round(steps=killer.random.randint(0, MOST_STEPS[work]), lingers_s=lingers_s)
        if ended:
            print(f"kill {number}: it had ended", flush=True)
    killer.round(steps=0 if work == "change" else math.inf, lingers_s=0.0)
    print(json.dumps(killer.answered.summary()), flush=True)


if __name__ == "__main__":
    main()
