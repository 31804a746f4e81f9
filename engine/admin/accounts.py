"""The accounts of a data folder that nothing serves from."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.clock import MonotonicClock
from engine.data_lock import DataLock
from engine.gateway.gate import Gate
from engine.registry.store import Store
from engine.tenants.tenants import Tenants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.settings import Settings


@contextmanager
def accounts(settings: Settings) -> Iterator[Tenants]:
    """Tenants and users, for as long as the block lasts. Raises BaseRefused while a Loradeck serves from the folder."""
    lock, clock = DataLock(settings.data), MonotonicClock()
    lock.take()
    try:
        store = Store(settings.database_url)
        try:
            gate = Gate(clock)
            yield Tenants(store, gate, clock, listens_on_loopback=settings.is_loopback, limit=gate.set_allowances)
        finally:
            store.close()
    finally:
        lock.give_back()


def has_admin(settings: Settings) -> bool:
    """Whether somebody may do everything: without, nobody else may reach this machine's Loradeck."""
    with accounts(settings) as tenants:
        return tenants.directory.has_admin
