"""Measures how long the first token takes from six starting points, and leaves everything as it was."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from engine.adapters.origin import HttpOrigin
from engine.caller import SYSTEM, Caller
from engine.errors import Conflict, LoradeckError
from engine.lanes.halt import Halt, Halted
from engine.lanes.lane_runs import LaneRuns
from engine.lanes.merged import why_no_merge
from engine.lanes.placement import Placement
from engine.lanes.replica_process import replica_data, why_no_replica
from engine.lanes.results import LANES, ColdWarmState, LaneResult
from engine.lanes.store import ArtifactStore

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.ids import AdapterId
    from engine.lanes.results import ColdWarmOptions, LaneName, LaneRun

CLOSE_S = 30.0
"""How long ``close`` waits for the adapter to be back where it was."""

log = logging.getLogger("loradeck.lanes")


class ColdWarm:
    """One comparison at a time, on a thread of its own. ``state`` is replaced whole; every method may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self.state = ColdWarmState()
        self._engine = engine
        self._lock = threading.Lock()
        self._halt = Halt()
        self._thread: threading.Thread | None = None
        engine.before_stop.append(self.close)

    def start(self, options: ColdWarmOptions, *, caller: Caller = SYSTEM) -> None:
        """Begin to measure; returns at once. Raises Forbidden, ModelNotFound, or Conflict while one is under way."""
        caller.need("operator", everywhere=True)
        target = self._engine.resolve(options.adapter)
        if target.adapter is None:
            raise Conflict(f"{options.adapter} is the base; choose an adapter.", code="no_adapter", param="adapter")
        with self._lock:
            if self.state.phase != "idle":
                raise Conflict("A comparison is under way already; stop it first.", code="comparison_running")
            self._halt = Halt()
            self.state = ColdWarmState(
                phase="running", options=options, adapter=target.adapter, alias=options.adapter, began_unix=time.time(),
                load_before=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
                results=tuple(LaneResult(lane=lane) for lane in LANES if lane in options.lanes),
            )  # fmt: skip
            self._thread = threading.Thread(target=self._work, args=(options, target.adapter), name="lanes", daemon=True)
            self._thread.start()

    def stop(self, *, caller: Caller = SYSTEM) -> None:
        """End what runs and put the adapter back; returns at once. Raises Forbidden."""
        caller.need("operator", everywhere=True)
        self._halt.ask()

    def reset(self, *, caller: Caller = SYSTEM) -> None:
        """Stop, put the adapter back, and forget what was measured. Blocks until that is done. Raises Forbidden."""
        caller.need("operator", everywhere=True)
        self.close()
        with self._lock:
            if self.state.phase == "idle":
                self.state = ColdWarmState()

    def close(self) -> None:
        """Stop and wait until the adapter is back where it was."""
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=CLOSE_S)

    def _work(self, options: ColdWarmOptions, adapter: AdapterId) -> None:
        fault = ""
        try:
            self._measure(options, adapter)
        except Halted:
            self._change(stopped=True)
        except LoradeckError as refusal:
            fault = refusal.message
        except Exception:
            log.exception("a comparison failed")
            fault = "The comparison failed by a fault of this program; the log has it."
        self._change(phase="idle", now=None, ended_unix=time.time(), fault=fault)

    def _measure(self, options: ColdWarmOptions, adapter: AdapterId) -> None:
        """Every lane in turn, round by round; at the end of the block store, folders and the adapter's place are as before."""
        engine, host = self._engine, self._engine.host
        record = host.call(lambda: host.residency.entry(adapter).record)
        with ExitStack() as undo:
            placement = Placement(engine, host, adapter, self._halt)
            away = host.residency.disk.away / host.residency.disk.path(adapter).name
            store = undo.enter_context(ArtifactStore(away, bytes_per_s=options.store_bytes_per_s))
            data = undo.enter_context(replica_data(host, record))
            undo.callback(self._restore, placement, store)
            lanes = LaneRuns(engine, placement, self._halt, record=record, origin=HttpOrigin(store.url), replica=data)
            self._skip({"merge": why_no_merge(host), "replica": why_no_replica(host)})
            lanes.warm_up(options)
            for number in range(1, options.repeats + 1):
                for lane in (result.lane for result in self.state.results if not result.skipped):
                    self._halt.check()
                    self._change(now=(lane, number))
                    self._add(lanes.run(lane, number, options))

    def _restore(self, placement: Placement, store: ArtifactStore) -> None:
        self._change(phase="restoring", now=None)
        store.hurry()
        placement.halt = Halt()  # the wish to stop is met; what follows is not to be broken off
        self._change(restored=placement.restore())

    def _skip(self, reasons: dict[LaneName, str]) -> None:
        self._change(results=tuple(dataclasses.replace(each, skipped=reasons.get(each.lane, "")) for each in self.state.results))

    def _add(self, run: LaneRun) -> None:
        results = tuple(dataclasses.replace(each, runs=(*each.runs, run)) if each.lane == run.lane else each for each in self.state.results)
        text = self.state.text or (self._engine.tokenizer.decode(list(run.token_ids)) if run.counts else "")
        self._change(results=results, text=text)

    def _change(self, **fields: object) -> None:
        self.state = dataclasses.replace(self.state, **fields)  # type: ignore[arg-type]
