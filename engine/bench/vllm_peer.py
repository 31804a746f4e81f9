"""vLLM on the CPU as a contender: a process of another interpreter that waits between its turns."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engine.bench.adapters import MAX_RANK
from engine.bench.peers import PeerMissing
from engine.bench.timing import Contender, Outcome, Traffic
from engine.bench.vllm_worker import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from engine.bench.adapters import Source
    from engine.bench.rig import Rig

WORKER = Path(__file__).with_name("vllm_worker.py")
PRELOADED = ("libtcmalloc_minimal*.so*", "libtcmalloc*.so*"), ("libiomp5*.so",)
"""Of each group the first that is found: what vLLM's own pages advise for the CPU."""
LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib")
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no loop of its own that would run while others are timed
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class VllmPeer:
    """The process, set up and ready. Raises PeerMissing when it ends instead of answering; its log says why."""

    def __init__(self, process: subprocess.Popen[str], adapters: Sequence[Source], log: Path) -> None:
        self.version = ""
        self._process = process
        self._places = {adapter.alias: index for index, adapter in enumerate(adapters)}
        self._log = log

    def contender(self, name: str, adapters: Sequence[Source] | None = None) -> Contender:
        """It as a contender: row i under ``adapters[i]``, or all on the base."""

        def run(traffic: Traffic) -> Outcome:
            places = [None] * traffic.rows if adapters is None else [self._places[adapter.alias] for adapter in adapters]
            answer = self.ask({"prompts": traffic.prompts(), "adapters": places, "new_tokens": traffic.new_tokens})
            return Outcome(seconds=answer["seconds"], tokens=tuple(map(tuple, answer["tokens"])))

        return Contender(name=name, run=run)

    def ask(self, value: dict[str, Any]) -> dict[str, Any]:
        """Send a line and wait for its answer."""
        requests, answers = self._pipes()
        with contextlib.suppress(BrokenPipeError):
            requests.write(json.dumps(value) + "\n")
            requests.flush()
        for line in answers:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return answer
        message = f"vLLM ended instead of answering (exit code {self._process.wait()}); {self._log} says why."
        raise PeerMissing(message)

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


@contextlib.contextmanager
def vllm_peer(rig: Rig, python: Path, adapters: Sequence[Source]) -> Iterator[VllmPeer]:
    """Start vLLM with ``python`` on the rig's base; ended on the way out. Raises PeerMissing."""
    log = rig.folder / "vllm.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - the interpreter that the operator named
                [str(python), "-u", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **ENVIRONMENT, **preload(python), "OMP_NUM_THREADS": str(torch.get_num_threads())},
            )
        except OSError as error:
            message = f"{python} cannot be run: {error.strerror}."
            raise PeerMissing(message) from None
        with process:
            try:
                peer = VllmPeer(process, adapters, log)
                peer.version = peer.ask(_setup(rig, adapters))["version"]
                yield peer
            finally:
                process.kill()


def preload(python: Path) -> dict[str, str]:
    """``LD_PRELOAD`` with tcmalloc and libiomp, from the environment of ``python`` or the system's folders; what is absent is left out."""
    prefix = python.parent.parent / "lib"
    nearby = sorted(prefix.glob("python3*/site-packages/**/lib*.so*"))
    system = [path for folder in (str(prefix), *LIBRARY_FOLDERS) for path in sorted(Path(folder).glob("lib*.so*"))]
    found = []
    for names in PRELOADED:
        found += [str(path) for name in names for path in (*nearby, *system) if path.match(name)][:1]
    return {"LD_PRELOAD": ":".join(found)} if found else {}


def _setup(rig: Rig, adapters: Sequence[Source]) -> dict[str, Any]:
    options = rig.options
    return {
        "base": str(rig.base),
        "adapters": [str(adapter.folder) for adapter in adapters],
        "rows": options.rows,
        "max_rank": MAX_RANK,
        "max_model_len": min(rig.spec.max_position, options.prompt_tokens + options.new_tokens + 16),
    }
