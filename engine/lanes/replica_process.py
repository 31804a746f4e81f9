"""Starts a replica in its own process, follows what it says, and sees to it that it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine.adapters.tiers import DiskTier
from engine.alias import AliasName
from engine.errors import LoradeckError
from engine.ids import DEFAULT_TENANT
from engine.lanes.results import LanePhase
from engine.lanes.served import LaneAnswer
from engine.registry.catalog import Catalog, NewVersion
from engine.registry.store import Store
from engine.settings import Settings
from engine.weights.digest import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.lanes.halt import Halt
    from engine.lanes.results import PhaseKind
    from engine.model_host import ModelHost
    from engine.request import Request
    from engine.version import VersionRecord

ROOT = Path(__file__).resolve().parents[2]
PREFIX = ".replica-"
LIMIT_S = 600.0
"""A replica that has not answered by then is ended."""
GRACE_S = 3.0
ALIAS = "replica/adapter"
SPARE_PAGES = 64
EVENTS: dict[str, tuple[str, PhaseKind]] = {
    "imported": ("process start", "start"),
    "kernels": ("prepare kernels", "warm_up"),
    "base": ("read base", "base"),
    "ready": ("start engine", "warm_up"),
}
"""What has just ended when a line says so."""


def why_no_replica(host: ModelHost) -> str:
    """Why a second process with its own base has no room; empty when it has."""
    needed = host.parts.budget.base + host.parts.budget.workspace
    if host.runner.model.device.type == "cuda":
        free = host.parts.budget.total - host.parts.budget.base - host.parts.arena.num_bytes - host.parts.budget.workspace
    else:
        free = psutil.virtual_memory().available
    return "" if free >= needed else f"a second process needs {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free"


@contextmanager
def replica_data(host: ModelHost, record: VersionRecord) -> Iterator[Path]:
    """A data folder that holds one registered adapter, and nothing afterwards. What an earlier process left behind goes first."""
    for left in host.parts.settings.data.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=host.parts.settings.data, prefix=PREFIX, ignore_cleanup_errors=True) as name:
        data = Path(name)
        source = host.residency.disk.path(record.id)
        disk = DiskTier(data / "adapters" / source.parent.name, pin_memory=False)
        shutil.copyfile(source, disk.path(record.id))
        catalog = Catalog(Store(Settings(data=data, database="").database_url), base_digest=record.base_digest)
        catalog.register(NewVersion(record=dataclasses.replace(record, tenant=DEFAULT_TENANT), alias=AliasName(DEFAULT_TENANT, ALIAS)))
        catalog.close()
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(host.parts.settings.data / CACHE, data / CACHE)
        yield data


def answer_in_process(host: ModelHost, data: Path, record: VersionRecord, request: Request, halt: Halt) -> LaneAnswer:
    """Start, listen to the last line, end. Raises LoradeckError when it could not answer, Halted."""
    began_s = host.clock.now_s()
    with running(data) as process, halt.ends(process.kill):
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(_order(host, data, record, request)) + "\n")
            process.stdin.flush()
        heard: dict[str, tuple[float, dict[str, Any]]] = {}
        for line in process.stdout:
            event = json.loads(line)
            heard[event["event"]] = (host.clock.now_s() - began_s, event)
            if event["event"] in {"done", "refused"}:
                break
    if "refused" in heard:
        raise LoradeckError(f"The replica refused: {heard['refused'][1]['message']}", code="replica_refused")
    if "done" not in heard:
        raise LoradeckError(f"The replica ended without an answer, with code {process.returncode}.", code="replica_failed")
    done = heard["done"][1]
    return LaneAnswer(
        ttft_s=heard["token"][0],
        phases=tuple(_phases(heard)),
        token_ids=tuple(done["token_ids"]),
        process_bytes=done["process_bytes"],
    )


@contextmanager
def running(data: Path) -> Iterator[subprocess.Popen[str]]:
    """The process; asked to end with the block, and made to when it does not."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    with (data / "stderr.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.lanes.replica"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.daemon = True
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.terminate()
        try:
            process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, AttributeError):
                pipe.close()  # type: ignore[union-attr]


def _order(host: ModelHost, data: Path, record: VersionRecord, request: Request) -> dict[str, object]:
    """The base as it is served here, with room for one adapter and one request."""
    settings, budget, layout = host.parts.settings, host.parts.budget, host.parts.arena.layout
    tokens = len(request.prompt_ids) + request.sampling.max_tokens
    pages = 4 * (record.num_pages + layout.pages_for(tokens)) + SPARE_PAGES
    return {
        "model": ALIAS,
        "prompt_ids": request.prompt_ids,
        "new_tokens": request.sampling.max_tokens,
        "settings": {
            "base": host.parts.base_root,
            "device": host.runner.model.device.type,
            "data": str(data),
            "database": "",
            "memory": budget.base + budget.workspace + pages * layout.page_bytes,
            "max_rank": settings.max_rank,
            "max_context": settings.max_context,
            "max_sequences": settings.max_sequences,
            "max_step_tokens": settings.max_step_tokens,
            "threads": settings.threads,
            "cpu_weights": settings.cpu_weights,
            "sample_adapters": 0,
        },
    }


def _phases(heard: dict[str, tuple[float, dict[str, Any]]]) -> Iterator[LanePhase]:
    """Each line ends a phase; the prefill is what the replica's own engine measured, and its adapter is read and copied before it."""
    at_s = 0.0
    for event, (name, kind) in EVENTS.items():
        if event in heard:
            end_s = heard[event][0]
            yield LanePhase(name=name, kind=kind, start_s=at_s, duration_s=end_s - at_s)
            at_s = end_s
    token_s = heard["token"][0]
    prefill_s = max(at_s, token_s - (heard["done"][1]["prefill_s"] or 0.0))
    yield LanePhase(name="load adapter", kind="adapter", start_s=at_s, duration_s=prefill_s - at_s)
    yield LanePhase(name="prefill", kind="prefill", start_s=prefill_s, duration_s=token_s - prefill_s)
