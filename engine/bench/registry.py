"""Many adapters: registered in one operation, and a list of tens of thousands of rows after a restart."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from engine.alias import AliasName
from engine.bench.adapters import write_mix
from engine.bench.figures import Figure
from engine.bench.listing import WHOLE, p50, p95, restart
from engine.bench.timing import say
from engine.bench.tiny_base import write_tiny_base
from engine.caller import SYSTEM
from engine.engine import Engine
from engine.errors import EngineFault
from engine.ids import AdapterId, TenantId
from engine.intake.importing import Import
from engine.models.config import read_spec
from engine.operation import UNFINISHED
from engine.registry.catalog import Catalog, NewVersion
from engine.registry.store import Store
from engine.settings import Settings
from engine.version import VersionRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.bench.listing import Listing
    from engine.bench.options import Options
    from engine.intake.progress import Progress

TENANTS: Final = 50
TOGETHER: Final = 1000
REPEATS: Final = 30
LOOK_EVERY_S: Final = 0.1
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """One operation, timed from the request on."""

    seconds: float
    reading_s: float
    """Of these, until the rows were stored and the work could begin."""
    progress: Progress


def registry(options: Options) -> list[Figure]:
    """Registrations a second, start, pages and memory, on a tiny base of the bench's own and a disk that is flushed."""
    folder = options.data / "bench" / "registry"
    base = write_tiny_base(folder / "base")
    say(f"writing {options.adapters} adapters")
    sources = write_mix(folder / "sources", read_spec(base), "small", options.adapters)
    shutil.rmtree(folder / "engine", ignore_errors=True)
    settings = Settings(
        base=str(base),
        device="cpu",
        data=folder / "engine",
        memory="96MiB",
        threads=options.threads,
        source_allow=(str(folder / "sources"),),
    )
    empty = _fresh(settings)
    bulk, digest = _register(settings, sources[0].folder.parent)
    filled_s = _fill(settings, digest, options.listed - options.adapters)
    listing = _fresh(settings, repeats=REPEATS)
    return [*_registered(bulk), *_listed(listing, empty, filled_s, options)]


def _register(settings: Settings, sources: Path) -> tuple[Bulk, str]:
    """Everything below a folder, in one operation; and the base's digest."""
    say("registering them in one operation")
    engine = Engine(settings)
    engine.start()
    try:
        started_s = time.perf_counter()
        progress = engine.operations.start(Import(kind="scan", source=str(sources), alias="bench"), caller=SYSTEM)
        reading_s = time.perf_counter() - started_s
        while progress.record.state in UNFINISHED:
            time.sleep(LOOK_EVERY_S)
            progress = engine.operations.get(progress.record.id, caller=SYSTEM)
        seconds = time.perf_counter() - started_s
        if progress.record.done != progress.record.total:
            message = f"{progress.record.failed} of {progress.record.total} adapters were refused: {progress.record.message}"
            raise EngineFault(message)
        return Bulk(seconds=seconds, reading_s=reading_s, progress=progress), engine.base_spec.digest
    finally:
        engine.stop()


def _fill(settings: Settings, digest: str, rows: int) -> float:
    """Versions without images, under names of many tenants, as the catalog stores what is registered together; seconds."""
    say(f"storing {max(0, rows)} more rows")
    catalog = Catalog(Store(settings.database_url), base_digest=digest)
    started_s = time.perf_counter()
    try:
        for first in range(0, rows, TOGETHER):
            catalog.register(*(_row(number, digest) for number in range(first, min(rows, first + TOGETHER))))
    finally:
        catalog.close()
    return time.perf_counter() - started_s


def _row(number: int, digest: str) -> NewVersion:
    """Ranks, sizes and dates of their own."""
    content = hashlib.sha256(f"row {number}".encode()).hexdigest()
    tenant, pages = TenantId(_tenant(number)), 1 + number % 7
    record = VersionRecord(
        id=AdapterId(content[:32]), digest=content, tenant=tenant, source=f"/nowhere/{number:06}", base_digest=digest,
        rank=8 << number % 4, modules=("q_proj", "v_proj"), num_matched=4, num_pages=pages, bytes=pages * 2**16, base_proof="declared",
        registered_unix=time.time() - number % 365 * DAY_S, synthetic=True,
    )  # fmt: skip
    return NewVersion(record=record, alias=AliasName(tenant, f"many/row-{number:06}"))


def _tenant(number: int) -> str:
    return f"tenant-{number % TENANTS:02}"


def _fresh(settings: Settings, *, repeats: int = 0) -> Listing:
    """In a process of its own, as after a restart."""
    say("restarting")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(partial(restart, settings, tenant=_tenant(7), repeats=repeats)).result()


def _registered(bulk: Bulk) -> Iterator[Figure]:
    total = bulk.progress.record.total
    yield Figure(key="adapters", label="adapters registered in one operation, the delta probe deferred to the first load", value=total)
    yield Figure(key="seconds", label="from the request to the last one stored, flushed and answering", value=bulk.seconds, unit="s")
    yield Figure(key="reading_seconds", label="of these, until their rows were stored", value=bulk.reading_s, unit="s")
    yield Figure(key="per_s", label="registrations", value=total / bulk.seconds, unit="/s")


def _listed(listing: Listing, empty: Listing, filled_s: float, options: Options) -> Iterator[Figure]:
    more = max(1, options.listed - options.adapters)
    yield Figure(key="rows", label="rows after a restart, those beyond the operation without images", value=listing.rows)
    yield Figure(key="stored_per_s", label="stored by the catalog, a thousand together", value=more / filled_s, unit="/s")
    yield Figure(key="start.seconds", label="start with all rows, in a fresh process", value=listing.start_s, unit="s")
    yield Figure(key="start.empty_seconds", label="start without rows, in a fresh process", value=empty.start_s, unit="s")
    each = (listing.rss_bytes - empty.rss_bytes) / max(1, listing.rows)
    yield Figure(key="row_bytes", label="resident memory of an idle row", value=int(each), unit="B")
    worst = max(listing.pages, key=lambda name: p95(listing.pages[name]))
    for name, times_s in listing.pages.items():
        label = f"a page of 100 rows, {name.replace('_', ' ')}: p50"
        yield Figure(key=f"page.{name}.p50_ms", label=label, value=p50(times_s), unit="ms", spread=(min(times_s) * 1e3, max(times_s) * 1e3))
        yield Figure(key=f"page.{name}.p95_ms", label=f"{label[:-3]}p95", value=p95(times_s), unit="ms")
    yield Figure(key="page.slowest", label="slowest page", value=worst)
    yield Figure(key="page.slowest_p95_ms", label="its p95", value=p95(listing.pages[worst]), unit="ms")
    for name, path in WHOLE.items():
        yield Figure(key=f"whole.{name}.p50_ms", label=f"{path}: p50", value=p50(listing.whole[name]), unit="ms")
        yield Figure(
            key=f"whole.{name}.stall_ms", label=f"{path}: longest stall of the event loop", value=listing.stalls[name] * 1e3, unit="ms"
        )
