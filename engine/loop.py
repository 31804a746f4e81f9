"""The engine thread: commands in, one forward pass a turn, results out. Nothing ends it but ``stop``."""

from __future__ import annotations

import logging
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from engine.errors import EngineFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.clock import Clock
    from engine.model_host import ModelHost

T = TypeVar("T")
Command = tuple["Callable[[], None]", "Callable[[EngineFault], None] | None"]
WAITING_WAIT_S = 0.02
"""How long a turn waits for a command while requests wait for adapters or pages: drains start by the clock."""
IDLE_WAIT_S = 0.25
"""How long an idle turn waits for a command; also the heartbeat of an idle engine."""

log = logging.getLogger("loradeck.engine")


class EngineLoop:
    """Runs one model host on a thread of its own. ``post`` and ``call`` are for other threads."""

    def __init__(self, host: ModelHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._stopping = threading.Event()
        self.last_progress_s = clock.now_s()
        """When a turn last ended, clock seconds."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """End after the step under way; waiting requests end with an error."""
        self._stopping.set()
        self.post(lambda: None)
        self._thread.join(timeout=timeout_s)

    def post(self, command: Callable[[], None], *, fault: Callable[[EngineFault], None] | None = None) -> None:
        """Run a command on the engine thread before its next step; ``fault`` hears of a bug of ours in it."""
        self._inbox.put((command, fault))

    def call(self, command: Callable[[], T], *, timeout_s: float = 30.0) -> T:
        """Run a command on the engine thread and wait for what it returns or raises."""
        if threading.current_thread() is self._thread:
            return command()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(command())
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                future.set_exception(error)

        self.post(run)
        return future.result(timeout=timeout_s)

    def forward(self, make: Callable[[], Future[T]]) -> Future[T]:
        """A future that the engine thread fills from the one that ``make`` returns there."""
        outer: Future[T] = Future()

        def copy(inner: Future[T]) -> None:
            error = inner.exception()
            if error is not None:
                outer.set_exception(error)
            else:
                outer.set_result(inner.result())

        self.post(lambda: make().add_done_callback(copy))
        return outer

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._turn()
        self._take_commands(wait_s=0.0)
        self._host.shut_down()

    def _turn(self) -> None:
        """One turn; a fault of ours ends the requests it hit and nothing more."""
        try:
            busy = self.step()
        except Exception:
            log.exception("a step failed")
            self._host.fail_running(EngineFault("The engine failed on a step of this request; it is safe to send it again."))
            busy = True
        self.last_progress_s = self._clock.now_s()
        self._take_commands(wait_s=0.0 if busy else WAITING_WAIT_S if self._host.num_waiting else IDLE_WAIT_S)

    def step(self) -> bool:
        """Plan, run, settle, publish; False when there was nothing to compute."""
        now_s = self._clock.now_s()
        self._host.tick(now_s)
        plan = self._host.scheduler.plan(now_s)
        self._host.requests.note_plan(plan)
        if plan.is_empty:
            self._host.idle(now_s)
            return False
        self._host.run(plan)
        return True

    def _take_commands(self, *, wait_s: float) -> None:
        try:
            command = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            while True:
                self._obey(*command)
                command = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _obey(self, command: Callable[[], None], fault: Callable[[EngineFault], None] | None) -> None:
        try:
            command()
        except Exception:
            log.exception("a command failed")
            if fault is not None:
                fault(EngineFault("The engine failed on this request; it is safe to send it again."))
