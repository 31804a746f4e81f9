from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.registry.store import Store
from tests.postgres import PostgresServer

SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""For what only a file can do."""
POSTGRESQL = pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A registry that does not exist yet, in each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'loradeck.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], Store]]:
    """Opens the registry, as often as is asked; all are closed at the end."""
    stores: list[Store] = []

    def opened() -> Store:
        stores.append(Store(url))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    """An open registry, empty but for its two tenants."""
    return open_store()
