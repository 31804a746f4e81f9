"""What tests of the engine's parts share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import BaseRefused
from engine.weights import gguf_import, gguf_tokenizer
from tests import postgres


@pytest.fixture(scope="session")
def demo_folder(request: pytest.FixtureRequest) -> Path:
    """The demo base, converted once for each version of the importer and kept in pytest's cache; read only."""
    try:
        gguf_import.demo_gguf()
    except BaseRefused as refusal:
        pytest.skip(refusal.message)
    sources = b"".join(Path(module.__file__).read_bytes() for module in (gguf_import, gguf_tokenizer))
    return gguf_import.demo_base(request.config.cache.mkdir(f"demo-{hashlib.sha256(sources).hexdigest()[:12]}"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    """A PostgreSQL server of this test process, which ends with it."""
    try:
        server = postgres.PostgresServer()
    except FileNotFoundError as missing:
        pytest.fail(f"{missing}, or leave these tests out with -m 'not postgresql'")
    try:
        server.start()
        yield server
    finally:
        server.remove()
