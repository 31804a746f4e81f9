"""Engines on TINY, stopped and checked when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engine.integration.serving import Served, serve

Make = Callable[..., Served]


@pytest.fixture
def engine(tiny_base: Path, tmp_path: Path) -> Iterator[Make]:
    """Makes engines: ``engine(pages=40, max_step_adapters=1)``; settings by name, a second one shares the data folder."""
    with ExitStack() as running:

        def make(**options: object) -> Served:
            return running.enter_context(serve(tiny_base, tmp_path / "data", **options))  # type: ignore[arg-type]

        yield make
