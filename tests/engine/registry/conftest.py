from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.registry.store import Store


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A registry that does not exist yet."""
    return f"sqlite:///{tmp_path / 'loradeck.db'}"


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
