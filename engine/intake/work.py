"""One operation under way: rows are prepared in two threads and taken in together, and the engine's own work comes first."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from engine.errors import LoradeckError, RegistryUnavailable
from engine.full_disk import DISK_FULL
from engine.intake.batch import Batch
from engine.intake.judged import Ended, Judged, Prepared, ended
from engine.intake.row import Fault, ImportRow
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from sqlmodel import Session

    from engine.model_host import ModelHost
    from engine.operation import ItemRecord
    from engine.version import VersionRecord

T = TypeVar("T")
WORKERS = 2
ROWS_READ = 1024
TOGETHER_ROWS, TOGETHER_BYTES = 128, 64 * 2**20
"""What is stored together; as much again is packed meanwhile."""
RETRY_S = 1.0
"""Between tries while the database is away."""
LONGEST_PAUSE_S = 0.5
RATE_OVER_S = 20.0


class Work:
    """``run`` blocks until no row waits, or ``halted`` is set."""

    def __init__(self, operation: str, host: ModelHost, batch: Batch, *, told: Callable[[], None]) -> None:
        self.operation = operation
        self.halted = threading.Event()
        self._host = host
        self._batch = batch
        self._store = host.catalog.store
        self._told = told
        self.stalled = ""
        """What it waits for; empty while it goes on."""
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def run(self) -> bool:
        """True when no row waits any more. Raises OSError when images cannot be written."""
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="intake") as pool:
            while not self.halted.is_set():
                waiting = self._store.read(lambda session: stored.items(session, self.operation, state="waiting", limit=ROWS_READ))
                if not waiting:
                    return True
                with closing(ahead(self._parts(pool, waiting))) as parts:
                    for part in parts:
                        self._use(part)
        return False

    def _use(self, part: list[Prepared | Ended]) -> None:
        started_s = time.monotonic()
        if not self.halted.is_set():
            self._settle(part)
            self._mark(len(part))
            self._give_way(time.monotonic() - started_s)

    def per_s(self) -> float | None:
        """Rows a second over the last twenty; None before the first."""
        (first_s, first), (last_s, last) = self._marks[0], self._marks[-1]
        return (last - first) / (last_s - first_s) if last > first else None

    def _parts(self, pool: ThreadPoolExecutor, items: Sequence[ItemRecord]) -> Iterator[list[Prepared | Ended]]:
        """Rows prepared, in parts of bounded size."""
        part: list[Prepared | Ended] = []
        for first in range(0, len(items), WORKERS):
            part += pool.map(self._prepare, items[first : first + WORKERS])
            size = sum(one.packed.pages.nbytes for one in part if isinstance(one, Prepared))
            if len(part) >= TOGETHER_ROWS or size >= TOGETHER_BYTES or self.halted.is_set():
                yield part
                part = []
        if part:
            yield part

    def _prepare(self, item: ItemRecord) -> Prepared | Ended:
        return self._batch.prepare(item.number, ImportRow.from_json(item.data))

    def _settle(self, part: list[Prepared | Ended]) -> None:
        ends = [one for one in part if isinstance(one, Ended)]
        if ends:
            self._patiently(lambda: self._store_ends(ends))
        prepared = [one for one in part if isinstance(one, Prepared)]
        if prepared:
            self._patiently(lambda: self._take_in(prepared))

    def _patiently(self, step: Callable[[], None]) -> None:
        """A database that is away is waited for: nothing of a step is stored before it all is."""
        while not self.halted.is_set():
            try:
                step()
            except RegistryUnavailable as error:
                if error.code == DISK_FULL:  # of an image: that is for somebody to mend and resume
                    raise
                self.stalled = error.message
                self.halted.wait(RETRY_S)
            else:
                self.stalled = ""
                return

    def _take_in(self, prepared: Sequence[Prepared]) -> None:
        try:
            self._batch.take_in(prepared, also=lambda session, items: stored.settle(session, self.operation, items))
        except RegistryUnavailable:
            raise
        except LoradeckError as error:
            if len(prepared) > 1:  # one row spoiled the transaction of all: find it
                for one in prepared:
                    self._patiently(partial(self._take_in, [one]))
            else:
                fault = Judged(row=prepared[0].judged.row, outcome="rejected", fault=Fault.of(error))
                self._store_ends([ended(prepared[0].number, fault)])

    def _store_ends(self, ends: Sequence[Ended]) -> None:
        def work(session: Session) -> list[VersionRecord | None]:
            stored.settle(session, self.operation, [one.item for one in ends])
            return self._batch.note(session, ends)

        self._store.write(work, then=self._batch.heard)

    def _give_way(self, worked_s: float) -> None:
        """While requests run, as long a pause as the work took: they get at least half of the time."""
        if self._host.scheduler.running:
            self.halted.wait(min(worked_s, LONGEST_PAUSE_S))

    def _mark(self, rows: int) -> None:
        now_s = time.monotonic()
        self._marks.append((now_s, self._marks[-1][1] + rows))
        while now_s - self._marks[0][0] > RATE_OVER_S:
            self._marks.popleft()
        self._told()


def ahead(parts: Iterator[T]) -> Generator[T]:
    """The same parts; while one is used, the next is made in a thread of its own."""
    with ThreadPoolExecutor(1, thread_name_prefix="intake-ahead") as maker:
        coming = maker.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = maker.submit(next, parts, None)
            yield part
