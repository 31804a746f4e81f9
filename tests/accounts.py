"""Real accounts for scripted engines: tenants, users and keys over a database of the test's own."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from engine.clock import Clock, MonotonicClock
from engine.gateway.gate import Gate
from engine.registry.store import Store
from engine.settings import Settings
from engine.tenants.tenants import Tenants


def open_accounts(settings: Settings, gate: Gate, clock: Clock | None = None) -> Tenants:
    """The real accounts, over a database of the test's own; the schema is made once a session."""
    settings.data.mkdir(parents=True, exist_ok=True)
    shutil.copy(empty_database(), settings.data / "loradeck.db")
    store = Store(settings.database_url)
    return Tenants(store, gate, clock or MonotonicClock(), listens_on_loopback=settings.is_loopback, limit=gate.set_allowances)


@cache
def empty_database() -> Path:
    """A registry that holds nothing."""
    path = Path(tempfile.mkdtemp()) / "empty.db"
    Store(f"sqlite:///{path}").close()
    return path
