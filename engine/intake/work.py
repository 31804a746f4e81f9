"""One operation under way: rows are prepared in two threads and taken in together, and the engine's own work comes first."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from engine.errors import LoradeckError, RegistryUnavailable
from engine.intake.batch import Batch, Judged, Prepared, item_of
from engine.intake.row import Fault, ImportRow
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.model_host import ModelHost
    from engine.operation import ItemRecord

WORKERS = 2
ROWS_READ = 256
TOGETHER_ROWS, TOGETHER_BYTES = 32, 64 * 2**20
"""What is packed and not yet stored."""
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
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def run(self) -> bool:
        """True when no row waits any more. Raises OSError when images cannot be written."""
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="intake") as pool:
            while not self.halted.is_set():
                waiting = self._store.read(lambda session: stored.items(session, self.operation, state="waiting", limit=ROWS_READ))
                if not waiting:
                    return True
                for part in self._parts(pool, waiting):
                    started_s = time.monotonic()
                    self._settle_patiently(part)
                    self._mark(len(part))
                    if self.halted.is_set():
                        return False
                    self._give_way(time.monotonic() - started_s)
        return False

    def per_s(self) -> float | None:
        """Rows a second over the last twenty; None before the first."""
        (first_s, first), (last_s, last) = self._marks[0], self._marks[-1]
        return (last - first) / (last_s - first_s) if last > first else None

    def _parts(self, pool: ThreadPoolExecutor, items: Sequence[ItemRecord]) -> Iterator[list[Prepared | ItemRecord]]:
        """Rows prepared, in parts of bounded size."""
        part: list[Prepared | ItemRecord] = []
        for first in range(0, len(items), WORKERS):
            part += pool.map(self._prepare, items[first : first + WORKERS])
            size = sum(one.packed.pages.nbytes for one in part if isinstance(one, Prepared))
            if len(part) >= TOGETHER_ROWS or size >= TOGETHER_BYTES or self.halted.is_set():
                yield part
                part = []
        if part:
            yield part

    def _prepare(self, item: ItemRecord) -> Prepared | ItemRecord:
        return self._batch.prepare(item.number, ImportRow.from_json(item.data))

    def _settle_patiently(self, part: list[Prepared | ItemRecord]) -> None:
        """A database that is away is waited for: nothing of the part is stored before it all is."""
        while not self.halted.is_set():
            try:
                return self._settle(part)
            except RegistryUnavailable:
                self.halted.wait(RETRY_S)
        return None

    def _settle(self, part: list[Prepared | ItemRecord]) -> None:
        prepared = [one for one in part if isinstance(one, Prepared)]
        ready = [one for one in part if not isinstance(one, Prepared)]
        try:
            if prepared:
                self._batch.take_in(prepared, also=lambda session, items: stored.settle(session, self.operation, [*ready, *items]))
            elif ready:
                self._store.write(lambda session: stored.settle(session, self.operation, ready))
        except RegistryUnavailable:
            raise
        except LoradeckError as error:
            if len(part) > 1:  # one row spoiled the transaction of all: find it
                for one in part:
                    self._settle([one])
            else:
                (one,) = prepared
                fault = Judged(row=one.judged.row, outcome="rejected", fault=Fault.of(error))
                self._settle([item_of(one.number, fault)])

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
